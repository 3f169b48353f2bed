//! Who frees what: buffers go back to where they came from, whichever side lets go of them last, and
//! on whichever thread.

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
fn a_plugin_may_be_the_last_to_let_go_of_a_batch_and_on_a_thread_of_its_own() {
    let pool = Pool::new(2);
    let mut relay = relay();
    let mut batch = Batch::from_pool(&pool);
    batch.push_message(b"keep");
    let place = batch.bytes().as_ptr().addr();

    let sink = relay.sink.as_mut().unwrap();
    block_on(poll_fn(|context| sink.poll_deliver(context, 0, &mut batch))).unwrap();
    drop(batch);
    assert_eq!(pool.waiting(), 0, "the plugin still has it");
    block_on(sink.on_tick()).unwrap();
    assert_eq!(pool.waiting(), 1, "the plugin's thread gave it back");
    assert_eq!(Batch::from_pool(&pool).bytes().as_ptr().addr(), place);
}

#[test]
fn a_plugin_that_goes_gives_back_what_it_kept() {
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
fn buffers_that_a_plugin_allocated_are_freed_on_a_thread_of_the_host() {
    let pool = Pool::new(2);
    let mut relay = relay();
    let mut batch = Batch::from_pool(&pool);
    // Shared, so that the plugin's first message makes buffers on the plugin's side.
    let shared = batch.clone();
    assert_eq!(relay.pull(&mut batch).unwrap(), Pull::Events);
    drop(relay);
    assert_eq!(batch.raw(&batch.events()[1]), Some(&b"relay 1"[..]));
    assert!(shared.is_empty() && shared.bytes().is_empty());
    drop(shared);
    assert_eq!(pool.waiting(), 1);
    thread::spawn(move || drop(batch)).join().unwrap();
    assert_eq!(pool.waiting(), 1, "they are not the pool's");
}
