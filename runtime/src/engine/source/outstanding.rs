//! The acknowledgements that a source has yet to receive after its last pull.
//!
//! The wait for these acknowledgements is not part of a connection and may last longer: the events may be in flight to
//! the sink of the same connector, which may have to reconnect first.

use std::{future::poll_fn, pin::pin, sync::Arc, time::Duration};

use tremor_pdk::Error;

use crate::engine::{
    control::{Control, Phase, interrupt::Interrupt, last_call::close_in_time},
    source::shared_intake::SharedIntake,
    tracking::token::Ledger,
};
use crate::executor;

/// Time after the flow was stopped in which sinks fail the events that they have not delivered. The source then knows
/// which events of its pulls were delivered.
const LAST_ENDS: Duration = Duration::from_millis(500);

/// A source that has finished, and the pulls whose end was not reported to it.
pub(crate) struct OutstandingAcks {
    pub(crate) intake: Arc<SharedIntake>,
    /// `None` if the source wants no acknowledgements.
    pub(crate) ledger: Option<Arc<Ledger>>,
    pub(crate) control: Arc<Control>,
}

impl OutstandingAcks {
    /// Reports to the source how each pull ended, until all pulls were reported or [`LAST_ENDS`] after the flow was
    /// stopped, and then closes the source. The source is closed even if the flow was stopped, because otherwise the
    /// events that were acknowledged after the source's last commit would be delivered twice.
    ///
    /// # Errors
    /// Returns the first error of the source.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let Self { intake, ledger, control } = self;
        if let Some(ledger) = ledger {
            Self::acknowledge_all(&intake, &ledger, &control).await?;
        }
        let mut source = intake.lock().await.take_source();
        close_in_time(source.close(), &control).await
    }

    async fn acknowledge_all(
        intake: &SharedIntake,
        ledger: &Ledger,
        control: &Control,
    ) -> Result<(), Error> {
        let mut stopped = Interrupt::new(control, Phase::Stopped, None);
        while intake.lock().await.has_outstanding() {
            let ended = stopped.or(poll_fn(|context| ledger.poll_ended(context)));
            let Ok(ended) = ended.await else { break };
            intake.lock().await.acknowledge(ended)?;
        }
        let mut time = pin!(control.clock().sleep(LAST_ENDS));
        while intake.lock().await.has_outstanding() {
            let ended = async { Some(poll_fn(|context| ledger.poll_ended(context)).await) };
            let over = async {
                time.as_mut().await;
                None
            };
            let Some(ended) = executor::first(ended, over).await else { break };
            intake.lock().await.acknowledge(ended)?;
        }
        Ok(())
    }
}
