//! The source side of a connector: pull, preprocess, decode, route; one batch at a time.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tremor_pdk::{
    Batch, Error, ErrorKind, Output, Preprocessor, Pull,
    abi::batch::{Pool, Rejected},
    dynamic::DynSource,
};

use super::{
    balance::Balance,
    connection::{Connection, End},
    control::{Control, Phase},
    delivery::{Ended, InFlight, Ledger, Token},
    pace::Pace,
    router::Router,
    spin::{self, Worker},
};
use crate::{codec::BatchDecoder, executor, processor, time};

/// Pulls after which other tasks get their turn, even if the source always has something.
const PULLS_IN_A_ROW: u64 = 32;

/// What of a source outlives a connection.
pub(crate) struct SourceSide {
    /// The number that its events carry.
    pub(crate) id: u32,
    pub(crate) router: Router,
    /// First to last. For connectors of bytes the last joins what nothing cut.
    pub(crate) preprocessors: Vec<Box<dyn Preprocessor>>,
    /// What preprocessors hand on besides messages. Empty between batches.
    pub(crate) output: Output,
    /// None for structured connectors.
    pub(crate) codec: Option<Box<dyn BatchDecoder>>,
    pub(crate) pace: Pace,
    /// Which batches the sink's task takes through.
    pub(crate) balance: Balance,
    /// Where those come from: the core of the sink keeps their nodes.
    pub(crate) handed: Pool,
    pub(crate) control: Arc<Control>,
}

/// What a source waits for.
enum Step {
    Pulled(Result<Pull, Error>),
    Ended(Vec<Ended>),
    Draining,
    Broken,
    /// The wait is over.
    Waited,
    /// An operator is to be told the time.
    Due,
    /// The routes are back: an operator may want to be told the time.
    Back,
}

/// A source within one connection.
struct Session<'s> {
    side: &'s mut SourceSide,
    source: Box<dyn DynSource>,
    connection: &'s Connection,
    /// Where pulls end up; none for sources that do not want to know.
    ledger: Option<Arc<Ledger>>,
    pulls: u64,
    outstanding: u64,
    /// The tokens of pulls that have brought nothing but parts of messages so far: they go with the
    /// message that is completed next.
    carried: Vec<Token>,
    /// When the source was last polled.
    pulled_at: Instant,
}

impl SourceSide {
    /// Whether the next pull is for the sink's task to decode: the one place where that is decided.
    fn hands_over(&mut self) -> bool {
        let Some(queued) = self.router.queued() else { return false };
        !self.pace.is_fixed() && self.balance.hands_over(queued, spin::is_roomy())
    }

    /// Runs the source of one connection to its end.
    pub(crate) async fn run(&mut self, source: Box<dyn DynSource>, connection: &Connection) -> End {
        let _worker = Worker::enter();
        let ledger = source.is_transactional().then(Arc::default);
        let mut session = Session {
            side: self,
            source,
            connection,
            ledger,
            pulls: 0,
            outstanding: 0,
            carried: Vec::new(),
            pulled_at: Instant::now(),
        };
        match session.run().await {
            Ok(end) => end,
            Err(error) => End::of(error),
        }
    }
}

impl Session<'_> {
    async fn run(&mut self) -> Result<End, Error> {
        loop {
            if self.side.router.is_due() {
                // A source that always has something would leave no other time for it.
                self.side.router.tell_time().await;
            }
            let hands_over = self.side.hands_over();
            let SourceSide { router, handed, pace, balance, .. } = &*self.side;
            let (pool, limit) = if hands_over {
                (handed, balance.limit(pace.limit()))
            } else {
                (&router.pool, pace.limit())
            };
            let mut batch = Batch::from_pool(pool);
            batch.set_limit(limit);
            let step = self.next(&mut batch, None).await;
            if !matches!(step, Step::Pulled(_)) {
                self.source.give_up(&mut batch);
            }
            let events = batch.len();
            let was_handed = self.handle(batch, hands_over).await;
            let spent = self.side.router.take_spent();
            if !was_handed && events > 0 {
                let took = self.pulled_at.elapsed();
                self.side.pace.learn(events, took, spent);
                self.side.balance.learn(took, spent);
            }
            match step {
                Step::Pulled(Ok(Pull::Events)) => {
                    if self.pulls.is_multiple_of(PULLS_IN_A_ROW) {
                        executor::yield_now().await;
                    }
                }
                Step::Pulled(Ok(Pull::Idle(wait))) => {
                    if let Some(end) = self.idle(wait).await? {
                        return Ok(end);
                    }
                }
                Step::Pulled(Ok(Pull::Finished)) => {
                    self.flush().await;
                    // Nothing is held back any more: what is left was the end of a stream, say.
                    self.carried.drain(..).for_each(Token::settle);
                    return self.finish().await;
                }
                // What has begun and not ended is no message: it was never accepted.
                Step::Draining => return self.finish().await,
                Step::Pulled(Err(error)) if error.kind() == ErrorKind::BAD_DATA => {
                    tracing::warn!(component = %self.side.router.name, %error, "bad data");
                    self.side.router.stats.failed(1);
                }
                Step::Pulled(Err(error)) => return Err(error),
                Step::Ended(ended) => self.acknowledge(ended)?,
                Step::Broken => return Ok(End::Interrupted),
                Step::Due => self.side.router.tell_time().await,
                Step::Waited | Step::Back => {}
            }
        }
    }

    /// Polls the source, then whatever else may interest it; with a deadline, waits for that
    /// instead of pulling.
    async fn next(&mut self, batch: &mut Batch, until: Option<Instant>) -> Step {
        let is_away = self.side.router.is_away();
        let due = self.side.router.due();
        let first = [until, due].into_iter().flatten().min();
        let timer = executor::sleep_until(first.unwrap_or_else(Instant::now));
        let mut timer = std::pin::pin!(timer);
        poll_fn(|context| {
            if self.side.control.has_reached(Phase::Draining) {
                return Poll::Ready(Step::Draining);
            }
            if until.is_none() {
                self.pulled_at = Instant::now();
                if let Poll::Ready(result) = self.source.poll_pull(context, batch) {
                    return Poll::Ready(Step::Pulled(result));
                }
            }
            if first.is_some() && timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(if first == until { Step::Waited } else { Step::Due });
            }
            if is_away && self.side.router.poll_back(context).is_ready() {
                return Poll::Ready(Step::Back);
            }
            self.poll_others(context)
        })
        .await
    }

    fn poll_others(&self, context: &Context<'_>) -> Poll<Step> {
        if self.side.control.poll_phase(context, Phase::Draining).is_ready() {
            return Poll::Ready(Step::Draining);
        }
        if self.connection.poll_broken(context).is_ready() {
            return Poll::Ready(Step::Broken);
        }
        match &self.ledger {
            Some(ledger) => ledger.poll_ended(context).map(Step::Ended),
            None => Poll::Pending,
        }
    }

    /// Waits until the next pull is due. The end, where the source is to end meanwhile.
    async fn idle(&mut self, wait: Duration) -> Result<Option<End>, Error> {
        let until = Instant::now() + wait;
        loop {
            match self.next(&mut Batch::new(), Some(until)).await {
                Step::Ended(ended) => self.acknowledge(ended)?,
                Step::Broken => return Ok(Some(End::Interrupted)),
                Step::Draining => return self.finish().await.map(Some),
                Step::Due => self.side.router.tell_time().await,
                Step::Back => {}
                Step::Waited | Step::Pulled(_) => return Ok(None),
            }
        }
    }

    fn acknowledge(&mut self, ended: Vec<Ended>) -> Result<(), Error> {
        for Ended { pull, failed } in ended {
            self.outstanding -= 1;
            if failed {
                self.source.fail(pull)?;
            } else {
                self.source.ack(pull)?;
            }
        }
        Ok(())
    }

    /// All streams have ended: what preprocessors held back goes out.
    async fn flush(&mut self) {
        for position in 0..self.side.preprocessors.len() {
            let mut batch = Batch::from_pool(&self.side.router.pool);
            let SourceSide { preprocessors, output, .. } = &mut *self.side;
            let mut whole = true;
            for (later, preprocessor) in preprocessors[position..].iter_mut().enumerate() {
                whole &= processor::preprocess(&mut batch, output, |batch, output| match later {
                    0 => preprocessor.finish(batch, output),
                    _ => preprocessor.process(batch, output),
                });
            }
            self.stamp(&mut batch);
            self.decode_and_route(batch, whole, false).await;
        }
    }

    /// Nothing more is pulled; the source hears of everything that is still under way.
    async fn finish(&mut self) -> Result<End, Error> {
        self.side.router.close().await;
        self.carried.clear();
        while self.outstanding > 0 {
            let control = &self.side.control;
            let ledger = &self.ledger;
            let ended = poll_fn(|context| {
                if control.poll_phase(context, Phase::Stopped).is_ready() {
                    return Poll::Ready(None);
                }
                match ledger {
                    Some(ledger) => ledger.poll_ended(context).map(Some),
                    None => Poll::Ready(None),
                }
            });
            match ended.await {
                Some(ended) => self.acknowledge(ended)?,
                None => break,
            }
        }
        Ok(End::Finished)
    }

    /// Takes a pulled batch through to its targets, or hands it over. Whether it was handed over.
    async fn handle(&mut self, mut batch: Batch, hands_over: bool) -> bool {
        if batch.is_empty() {
            return false;
        }
        self.pulls += 1;
        if let Some(ledger) = &self.ledger {
            self.outstanding += 1;
            self.carried.push(Token::of(self.pulls, ledger));
        }
        self.stamp(&mut batch);
        let SourceSide { preprocessors, output, .. } = &mut *self.side;
        let mut whole = true;
        for preprocessor in preprocessors {
            whole &= processor::preprocess(&mut batch, output, |batch, output| {
                preprocessor.process(batch, output)
            });
        }
        self.decode_and_route(batch, whole, hands_over).await
    }

    /// One clock read a batch.
    fn stamp(&self, batch: &mut Batch) {
        let now = time::now_ns();
        for event in batch.events_mut() {
            event.source = self.side.id;
            event.pull = self.pulls;
            if event.ingest_ns == 0 {
                event.ingest_ns = now;
            }
        }
    }

    /// `whole`: nothing of the pull was lost before. Whether the batch was handed over.
    async fn decode_and_route(&mut self, batch: Batch, whole: bool, hands_over: bool) -> bool {
        let mut rejected = self.side.output.take_rejected();
        let discarded = self.side.output.take_discarded();
        if batch.is_empty() && rejected.is_empty() && discarded == 0 && whole {
            return false;
        }
        let router = &mut self.side.router;
        router.stats.events_in(batch.len() + rejected.len() + discarded);
        router.stats.discarded(discarded);
        let token = match self.carried.pop() {
            Some(token) if self.carried.is_empty() => token,
            Some(token) => {
                self.carried.push(token);
                Token::join(std::mem::take(&mut self.carried))
            }
            None => Token::untracked(),
        };
        if !whole {
            router.stats.failed(1);
            drop(token.clone());
        }
        let mut item = InFlight { batch, token };
        if hands_over && rejected.is_empty() && !item.batch.is_empty() {
            match router.hand_over(item).await {
                None => return true,
                Some(refused) => item = refused,
            }
        }
        let InFlight { mut batch, token } = item;
        rejected.extend(match &mut self.side.codec {
            Some(codec) => codec.decode_batch(&mut batch),
            None => without_codec(&mut batch),
        });
        router.take_in(batch, rejected, token).await;
        false
    }
}

/// A structured source has no business with raw bytes.
fn without_codec(batch: &mut Batch) -> Vec<Rejected> {
    batch.decode_with(|_, _, _| {
        Err(Error::bad_data("the connector says it is structured, but its source sent raw bytes"))
    })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        sync::{Arc, Mutex},
        task::{Context, Poll},
    };

    use serde_json::Value as Config;
    use tremor_pdk::{Batch, Error, Output, Pull, Result, abi::batch::Pool, dynamic::DynSource};

    use super::{SourceSide, processor};
    use crate::{
        codec::{self, MakeCodec},
        engine::{
            balance::Balance,
            connection::{Connection, End},
            control::Control,
            pace::Pace,
            queue::{self, Bounds},
            router::Router,
            routes::{Ports, Routes, Target},
            stats::Stats,
        },
        executor::block_on,
    };

    /// Brings fragments, one a pull, and writes down what it hears of its pulls.
    struct Fragments {
        left: VecDeque<&'static [u8]>,
        heard: Arc<Mutex<Vec<(u64, bool)>>>,
    }

    impl DynSource for Fragments {
        fn poll_pull(&mut self, _: &mut Context<'_>, batch: &mut Batch) -> Poll<Result<Pull>> {
            let Some(fragment) = self.left.pop_front() else {
                return Poll::Ready(Ok(Pull::Finished));
            };
            batch.push_fragment(0, fragment);
            Poll::Ready(Ok(Pull::Events))
        }

        fn give_up(&mut self, _batch: &mut Batch) {}

        fn is_transactional(&self) -> bool {
            true
        }

        fn ack(&mut self, pull: u64) -> Result<()> {
            self.heard.lock().map_err(Error::internal)?.push((pull, true));
            Ok(())
        }

        fn fail(&mut self, pull: u64) -> Result<()> {
            self.heard.lock().map_err(Error::internal)?.push((pull, false));
            Ok(())
        }

        fn on_circuit_breaker(&mut self, _open: bool) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pulls_that_brought_parts_of_a_message_are_acknowledged_with_the_message() {
        let (sender, mut receiver) = queue::bounded(Bounds::default());
        let lines = processor::preprocessor("lines", &Config::Null).unwrap();
        let codec = codec::lookup("string", &Config::Null).unwrap();
        let ports = Ports { out: vec![Target::Queue(0)], err: Vec::new() };
        let (pool, stats) = (Pool::new(1), Arc::new(Stats::default()));
        let routes = Routes::new("source".into(), ports, Vec::new(), pool.clone(), stats.clone());
        let router = Router::new(routes, vec![sender], None, pool, stats);
        let mut side = SourceSide {
            id: 0,
            router,
            preprocessors: vec![lines, Box::new(processor::Join::default())],
            output: Output::new(),
            codec: Some(MakeCodec::decoder(&codec).unwrap()),
            pace: Pace::default(),
            balance: Balance::Never,
            handed: Pool::new(1),
            control: Arc::new(Control::new(0)),
        };
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let left = VecDeque::from([&b"one "[..], b"and ", b"a half\ntwo", b" and more\n"]);
        let source = Box::new(Fragments { left, heard: heard.clone() });
        let sink = std::thread::spawn(move || {
            let mut texts = Vec::new();
            block_on(async {
                while let Some(queued) = std::future::poll_fn(|c| receiver.poll_receive(c)).await {
                    let item = queued.item;
                    let events = item.batch.events().iter();
                    texts.extend(events.filter_map(|it| Some(item.batch.value(it)?.to_string())));
                    item.token.settle();
                }
            });
            texts
        });
        let end = block_on(side.run(source, &Connection::default()));
        assert!(matches!(end, End::Finished));
        assert_eq!(sink.join().unwrap(), ["\"one and a half\"", "\"two and more\""]);
        let mut heard = heard.lock().unwrap().clone();
        heard.sort_unstable();
        assert_eq!(heard, [(1, true), (2, true), (3, true), (4, true)]);
    }
}
