//! Tests of the ownership of buffers. The side that allocated a buffer, host or plugin, also frees it, whichever side
//! and whichever thread drops the last reference.

use std::{future::poll_fn, thread};

use serde_json::json;
use tremor_abi::batch::{HostBatch, Pool};
use tremor_pdk::{Batch, Pull};
use tremor_runtime::executor::block_on;

use crate::{
    drive::{Instance, factory, host},
    support::library,
};

fn relay() -> Instance {
    let relay = factory(&library("fixture-relay"), "relay");
    Instance::start(&relay, &json!({ "count": 2 }), &host("relay")).unwrap()
}

#[test]
fn batch_dropped_on_thread_of_plugin_returns_to_the_pool() {
    let pool = Pool::new(2);
    let mut relay = relay();
    let mut batch = Batch::from_pool(&pool);
    batch.push_message(b"keep");
    let address = batch.bytes().as_ptr().addr();

    let sink = relay.sink.as_mut().unwrap();
    block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch))).unwrap();
    drop(batch);
    assert_eq!(pool.waiting(), 0, "the plugin still has the batch");
    block_on(sink.on_tick()).unwrap();
    assert_eq!(pool.waiting(), 1, "the plugin's thread has dropped the batch");
    assert_eq!(Batch::from_pool(&pool).bytes().as_ptr().addr(), address);
}

#[test]
fn dropped_plugin_returns_its_buffers() {
    let pool = Pool::new(2);
    let mut relay = relay();
    let mut batch = Batch::from_pool(&pool);
    batch.push_message(b"keep");
    let sink = relay.sink.as_mut().unwrap();
    block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch))).unwrap();
    drop(batch);
    drop(relay);
    assert_eq!(pool.waiting(), 1);
}

#[test]
fn plugin_buffers_may_be_freed_on_a_host_thread() {
    let pool = Pool::new(2);
    let mut relay = relay();
    let mut batch = Batch::from_pool(&pool);
    // Share the buffers, so that the plugin has to allocate new ones for its first message.
    let shared = batch.clone();
    assert_eq!(relay.pull(&mut batch).unwrap(), Pull::Events);
    drop(relay);
    assert_eq!(batch.raw(&batch.events()[1]), Some(&b"relay 1"[..]));
    assert!(shared.is_empty() && shared.bytes().is_empty());
    drop(shared);
    assert_eq!(pool.waiting(), 1);
    thread::spawn(move || drop(batch)).join().unwrap();
    assert_eq!(pool.waiting(), 1, "the plugin's buffers do not return to the pool of the host");
}
