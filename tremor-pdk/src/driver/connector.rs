//! The driver of connectors.

use tremor_abi::connector::{Hook, Sides};

use super::SourceDriver;
use crate::{
    Connector, Halves, Result, Sink, connector,
    dynamic::{BoxFuture, CodecRequirement, DynConnector, DynHalves, DynSource},
};

/// Calls a connector. The futures of its methods are allocated on the heap, because none of them is on the data path.
pub(crate) struct ConnectorDriver<C: Connector>(C);

impl<C: Connector> ConnectorDriver<C> {
    pub(crate) fn new(connector: C) -> Self {
        Self(connector)
    }
}

impl<C: Connector> DynConnector for ConnectorDriver<C> {
    fn codec_requirement(&self) -> CodecRequirement {
        const { connector::codec::<C>() }
    }

    fn sides(&self) -> Sides {
        self.0.sides()
    }

    fn connect(&mut self, wanted: Sides) -> BoxFuture<'_, Result<DynHalves>> {
        Box::pin(async move {
            let Halves { source, sink } = self.0.connect(wanted).await?;
            let halves = Halves {
                source: source.filter(|_| wanted.has_source()),
                sink: sink.filter(|_| wanted.has_sink()),
            };
            let source = |source| Box::new(SourceDriver::new(source)) as Box<dyn DynSource>;
            Ok(halves.map(source, Sink::into_driver))
        })
    }

    fn hook(&mut self, hook: Hook) -> BoxFuture<'_, Result<()>> {
        match hook {
            Hook::START => Box::pin(self.0.on_start()),
            Hook::PAUSE => Box::pin(self.0.on_pause()),
            Hook::RESUME => Box::pin(self.0.on_resume()),
            Hook::CLOSE => Box::pin(self.0.close()),
            // A hook of a later minor version, which this version of the kit does not know.
            _ => Box::pin(async { Ok(()) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Waker},
    };

    use super::{ConnectorDriver, DynConnector, Hook, Sides};
    use crate::{NoConfig, prelude::*};

    /// A connector and its halves. The counter is the number of instances that were dropped.
    struct Both(Arc<AtomicUsize>);

    impl Drop for Both {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Component for Both {
        const NAME: &str = "both";
        type Config = NoConfig;

        fn new(_config: NoConfig, _context: ComponentContext) -> Result<Self> {
            Ok(Self(Arc::default()))
        }
    }

    impl Connector for Both {
        type Source = Self;
        type Sink = Self;

        async fn connect(&mut self, _wanted: Sides) -> Result<Halves<Self, Self>> {
            Ok(Halves::both(Self(self.0.clone()), Self(self.0.clone())))
        }

        async fn close(&mut self) -> Result<()> {
            Err(Error::internal("closed"))
        }
    }

    impl Source for Both {
        type Batch = RawBatch;

        async fn pull(&mut self, _batch: &mut RawBatch) -> Result<Pull> {
            Ok(Pull::Finished)
        }
    }

    impl Sink for Both {
        type Batch = RawBatch;

        async fn deliver(&mut self, _batch: &RawBatch) -> Delivery {
            Ok(())
        }
    }

    fn ready<T>(mut future: crate::dynamic::BoxFuture<'_, T>) -> T {
        let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("the call waits")
        };
        answer
    }

    #[test]
    fn unwanted_half_is_dropped_at_once() {
        for (wanted, dropped) in
            [(Sides::BOTH, 0), (Sides::SOURCE, 1), (Sides::SINK, 1), (Sides::NONE, 2)]
        {
            let count = Arc::<AtomicUsize>::default();
            let mut connector = ConnectorDriver::new(Both(count.clone()));
            assert_eq!(connector.sides(), Sides::BOTH);
            let halves = ready(connector.connect(wanted)).unwrap();
            let made = Sides::new(halves.source.is_some(), halves.sink.is_some());
            assert_eq!((made, count.load(Ordering::Relaxed)), (wanted, dropped));
        }
    }

    #[test]
    fn hook_calls_its_method_and_unknown_hook_is_ignored() {
        let mut connector = ConnectorDriver::new(Both(Arc::default()));
        assert_eq!(ready(connector.hook(Hook::START)), Ok(()));
        assert_eq!(ready(connector.hook(Hook::CLOSE)).unwrap_err().message(), "closed");
        assert_eq!(ready(connector.hook(Hook(200))), Ok(()));
    }
}
