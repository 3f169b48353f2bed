#![allow(clippy::unwrap_used)] // a failed `unwrap` names the line of the test

use std::{
    cell::RefCell,
    fs,
    future::pending,
    sync::mpsc::{self, Sender},
    thread::{self, ThreadId},
    time::Duration,
};

use super::{THREAD, Tokio};
use crate::{ErrorKind, lock, testing::TestHost};

/// Serialises tests that count the threads of runtimes.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn started(test: &TestHost) -> Tokio {
    test.block_on(Tokio::start(&test.host())).unwrap()
}

/// Returns the number of threads of runtimes.
fn threads() -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().flatten();
    names
        .filter(|entry| {
            let name = fs::read_to_string(entry.path().join("comm"));
            name.is_ok_and(|name| name.trim() == THREAD)
        })
        .count()
}

/// Waits until the thread of each dropped runtime has ended.
fn wait_until_ended() {
    while threads() > 0 {
        thread::yield_now();
    }
}

/// A value that, when it is dropped, sends the id of the thread that drops it.
struct Last(Sender<ThreadId>);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.0.send(thread::current().id());
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
fn future_runs_on_thread_of_the_runtime() {
    let _alone = lock(&ALONE);
    let test = TestHost::new();
    let tokio = started(&test);
    let ran = tokio.run(async {
        let (sender, receiver) = tokio_pair().await;
        // A timer looks for the runtime when it is created.
        ::tokio::time::sleep(Duration::from_millis(1)).await;
        sender.send(thread::current().id()).unwrap();
        receiver.recv().unwrap()
    });
    let id = test.block_on(ran).unwrap();
    assert_ne!(id, thread::current().id());
}

async fn tokio_pair() -> (Sender<ThreadId>, mpsc::Receiver<ThreadId>) {
    ::tokio::task::yield_now().await;
    mpsc::channel()
}

#[test]
fn each_start_has_a_thread_that_ends_with_its_last_handle() {
    let _alone = lock(&ALONE);
    wait_until_ended();
    let test = TestHost::new();
    let (one, two) = (started(&test), started(&test));
    let id = |tokio: &Tokio| test.block_on(tokio.run(async { thread::current().id() })).unwrap();
    let thread = id(&two);
    assert_ne!(id(&one), thread);
    assert_eq!(threads(), 2);
    let (sender, dropped) = mpsc::channel();
    let keeps = two.run(async move { LAST.with_borrow_mut(|last| *last = Some(Last(sender))) });
    test.block_on(keeps).unwrap();
    drop(one);
    let clone = two.clone();
    drop(two);
    assert_eq!(id(&clone), thread, "a clone keeps the thread");
    drop(clone);
    // Thread-local variables of clients are dropped with the thread.
    assert_eq!(dropped.recv(), Ok(thread));
    wait_until_ended();
}

#[test]
fn spawned_task_of_a_task_ends_with_the_handle() {
    let _alone = lock(&ALONE);
    let test = TestHost::new();
    let (one, other) = (started(&test), started(&test));
    let (sender, dropped) = mpsc::channel();
    let last = Last(sender);
    let spawns = one.run(async move {
        ::tokio::spawn(async move {
            let _last = last;
            pending::<()>().await;
        });
    });
    test.block_on(spawns).unwrap();
    drop(one);
    dropped.recv_timeout(Duration::from_mins(1)).expect("the spawned task ends");
    assert_eq!(test.block_on(other.run(async { 7 })), Ok(7), "another connector's runtime runs");
}

#[test]
fn futures_of_a_connector_end_with_its_handle_only() {
    let _alone = lock(&ALONE);
    let test = TestHost::new();
    let (one, two) = (started(&test), started(&test));
    let (sender, dropped) = mpsc::channel();
    let last = Last(sender);
    let mut waits = Box::pin(one.run(async move {
        let _last = last;
        pending::<()>().await;
    }));
    let (end, ends) = mpsc::channel();
    let other = two.run(async move {
        while ends.try_recv().is_err() {
            ::tokio::task::yield_now().await;
        }
    });
    assert!(test.poll_once(waits.as_mut()).is_pending());
    drop(one);
    dropped.recv().unwrap();
    assert_eq!(test.block_on(waits).unwrap_err().kind(), ErrorKind::INTERNAL);
    end.send(()).unwrap();
    assert_eq!(test.block_on(other), Ok(()));
}

#[test]
fn dropped_result_cancels_future_unless_detached() {
    let _alone = lock(&ALONE);
    let test = TestHost::new();
    let tokio = started(&test);
    let (sender, dropped) = mpsc::channel();
    let last = Last(sender);
    drop(tokio.run(async move {
        let _last = last;
        pending::<()>().await;
    }));
    dropped.recv().unwrap();
    let (sender, ran) = mpsc::channel();
    tokio.run(async move { sender.send(()).unwrap() }).detach();
    ran.recv().unwrap();
}

#[test]
fn panic_fails_only_its_own_future() {
    let _alone = lock(&ALONE);
    crate::ffi::guard("test", || ()).unwrap();
    let test = TestHost::new();
    let tokio = started(&test);
    let error = test.block_on(tokio.run(async { panic!("no luck") })).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PANICKED);
    assert!(error.to_string().contains("no luck"), "{error}");
    assert_eq!(test.block_on(tokio.run(async { 7 })), Ok(7));
}

#[test]
fn within_polls_on_current_thread_with_runtime() {
    let _alone = lock(&ALONE);
    let test = TestHost::new();
    let tokio = started(&test);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connected = tokio.within(async move {
        ::tokio::time::sleep(Duration::from_millis(1)).await;
        (::tokio::net::TcpStream::connect(address).await.unwrap(), thread::current().id())
    });
    let (_stream, id) = test.block_on(connected);
    assert_eq!(id, thread::current().id());
    let interval = tokio.enter(|| ::tokio::time::interval(Duration::from_secs(1)));
    assert_eq!(interval.period(), Duration::from_secs(1));
}

#[test]
fn runtime_can_be_restarted_under_load() {
    let _alone = lock(&ALONE);
    let test = TestHost::new();
    for _ in 0..50 {
        let tokio = started(&test);
        for _ in 0..20 {
            tokio
                .run(async {
                    loop {
                        ::tokio::task::yield_now().await;
                    }
                })
                .detach();
        }
        assert_eq!(test.block_on(tokio.run(async { 7 })), Ok(7));
    }
    wait_until_ended();
}

#[test]
fn panic_without_tokio_runtime_names_the_remedy() {
    let error = crate::ffi::guard("pull", ::tokio::runtime::Handle::current).unwrap_err();
    assert!(error.to_string().ends_with("`Tokio::within` of `tremor_pdk::tokio`"), "{error}");
}
