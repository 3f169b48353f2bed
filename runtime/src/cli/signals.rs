//! SIGINT and SIGTERM: the first drains, the second ends the process, even if a plugin hangs.

use std::{
    io,
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
    low_level,
};
use tremor_runtime::run::{Signalled, Stopper};

/// The time for the summary of a run that ends at once: so many naps, and a last one to log that they were
/// not enough. In a process that gets little processor time, naps are longer, and so is this time.
const NAPS: u32 = 9;
const NAP: Duration = Duration::from_millis(9);

/// A message to log.
enum Said {
    Signal(i32, Signalled),
    /// The run has not ended by itself.
    Hangs,
}

/// Listens from now on.
pub(super) fn listen(stopper: Stopper) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // On a thread of its own: nobody may read stderr.
    let (say, said) = mpsc::channel();
    thread::Builder::new().name("signals: log".to_owned()).spawn(move || log(&said))?;
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in &mut signals {
            let signalled = stopper.signal(Instant::now());
            // A thread that has ended has nothing to say.
            let _ = say.send(Said::Signal(signal, signalled));
            if signalled == Signalled::Halt {
                (1..NAPS).for_each(|_| thread::sleep(NAP));
                let _ = say.send(Said::Hangs);
                thread::sleep(NAP);
                // Without what plugins do when a process exits: that may hang as well.
                low_level::exit(1);
            }
        }
    })?;
    Ok(())
}

fn log(said: &Receiver<Said>) {
    for said in said {
        match said {
            Said::Signal(signal, Signalled::Drain) => {
                tracing::info!(signal, "the flows drain; a second signal stops them at once");
            }
            Said::Signal(signal, Signalled::Again) => {
                tracing::debug!(signal, "the same request as the last signal");
            }
            Said::Signal(signal, Signalled::Halt) => {
                tracing::warn!(signal, "the flows stop at once");
            }
            Said::Hangs => {
                tracing::error!("the run does not end in time: the process ends without it");
            }
        }
    }
}
