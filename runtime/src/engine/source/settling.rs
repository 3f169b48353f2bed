//! A source that brings nothing more, and still hears what becomes of what it brought.
//!
//! That may take longer than its connection lasts: what it brought may be on its way to the sink of
//! the same connector, which has to be connected again first. So this is no part of a connection.

use std::{future::poll_fn, sync::Arc};

use tremor_pdk::Error;

use crate::engine::{
    account::token::Ledger,
    control::{Control, Phase, interrupt::Interrupt, last_call::close_in_time},
    source::shared_intake::SharedIntake,
};

/// A source with pulls that it has not heard of yet.
pub(crate) struct Settling {
    pub(crate) intake: Arc<SharedIntake>,
    /// None for sources that do not want to know.
    pub(crate) ledger: Option<Arc<Ledger>>,
    pub(crate) control: Arc<Control>,
}

impl Settling {
    /// Reports to the source how each pull ended, until it knows of all, or the flow is stopped. Then the source is closed,
    /// in a stopped flow as well: otherwise everything that was acknowledged since its last commit would come twice.
    ///
    /// # Errors
    /// The source's.
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
            let Ok(ended) = ended.await else { return intake.lock().await.tell_ended() };
            intake.lock().await.acknowledge(ended)?;
        }
        Ok(())
    }
}
