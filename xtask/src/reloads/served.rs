//! The part `served`: clients keep their connections while a sink behind their servers is replaced.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hostile_peers::Reserved;

use super::{PACE, reload};
use crate::growth::{self, Sample};
use crate::outage::peer::{Behaviour, Peer};
use crate::outage::received::{Form, Received};
use crate::poster::Poster;
use crate::process::{Api, Process};
use crate::scenario::{Judgement, PATIENCE, Stage, spread, summary};

/// Maximum time from a request to its response.
const LIMIT: Duration = Duration::from_millis(50);
/// Maximum time on a busy machine.
const BUSY: Duration = Duration::from_secs(2);
/// Time between two lines of the TCP client.
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct Served {
    /// Times of reloads, and from each request to its response, in seconds.
    reloads: Vec<f64>,
    responses: Vec<f64>,
    /// Lines that the clients sent, and lines that the peer of the kept sink has not received.
    sent: u64,
    missing: u64,
    /// The summary of the flow.
    summary: String,
    samples: Vec<Sample>,
}

/// Clients that send numbered lines until they are ended.
struct Clients {
    http: JoinHandle<Result<Vec<f64>>>,
    tcp: JoinHandle<Result<()>>,
    next: Arc<AtomicU64>,
    has_ended: Arc<AtomicBool>,
}

pub(super) fn play(stage: &Stage<'_>, reloads: u64) -> Result<Served> {
    let mut peer = Peer::new(&stage.folder.join("kept"), PACE, Received::new(Form::Lines, 1));
    peer.turn(Behaviour::Answers)?;
    let ports = [Reserved::tcp()?, Reserved::tcp()?];
    let [http, tcp] = [0, 1].map(|it| ports[it].address());
    let flow = |number: u64| {
        let text = include_str!("../flows/served.yaml");
        let values = [("HTTP", &http as _), ("TCP", &tcp as _), ("NUMBER", &number as _)];
        stage.flow("served.yaml", text, &values)
    };
    flow(0)?;
    let mut process = stage.start("tremor", &["--api", "127.0.0.1:0", "served.yaml"])?;
    let api = process.api()?;
    ports.iter().try_for_each(|port| process.until_it_listens(port.port()))?;
    let clients = Clients::start([ports[0].port(), ports[1].port()])?;
    let (mut times, mut samples) = (Vec::new(), vec![sample(&mut process, &api, 0)?]);
    let every = (reloads / 100).max(1);
    for number in 1..=reloads {
        flow(number)?;
        let begun = Instant::now();
        ensure!(reload(&api, "changed")? == 1, "the flow was not changed in a reload");
        times.push(begun.elapsed().as_secs_f64());
        if number % every == 0 {
            samples.push(sample(&mut process, &api, number)?);
        }
    }
    let (responses, sent) = clients.end()?;
    process.until("all lines", PATIENCE, |_| {
        Ok((peer.ask(|it| it.missing(sent)) == 0).then_some(()))
    })?;
    let log = process.stop(PATIENCE)?;
    let (summary, _) = summary(&log, "served").context("no summary of the flow")?;
    let missing = peer.ask(|it| it.missing(sent));
    Ok(Served { reloads: times, responses, sent, missing, summary: summary.to_owned(), samples })
}

/// Measures the process when no reload is in progress.
fn sample(process: &mut Process, api: &Api, reloads: u64) -> Result<Sample> {
    process.until("a flow that runs", PATIENCE, |_| {
        let (status, _) = api.ask("GET", "/v1/flows/served")?;
        Ok((status == 200).then_some(()))
    })?;
    Sample::new(process, reloads)
}

impl Clients {
    fn start([http, tcp]: [u16; 2]) -> Result<Self> {
        let (next, has_ended) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut lines = TcpStream::connect(("127.0.0.1", tcp))?;
        let shared = || (next.clone(), has_ended.clone());
        let (number, ends) = shared();
        let http = thread::spawn(move || {
            let (address, mut client) = (format!("127.0.0.1:{http}"), Poster::new(PATIENCE));
            let mut times = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let body = format!("#{}#\n", number.fetch_add(1, Ordering::Relaxed));
                let begun = Instant::now();
                ensure!(client.send(&address, &body)?, "a request was not acknowledged");
                times.push(begun.elapsed().as_secs_f64());
            }
            Ok(times)
        });
        let (number, ends) = shared();
        let tcp = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let number = number.fetch_add(1, Ordering::Relaxed);
                writeln!(lines, "#{number}#").context("the TCP client lost its connection")?;
                thread::sleep(PAUSE);
            }
            Ok(())
        });
        Ok(Self { http, tcp, next, has_ended })
    }

    /// Ends the clients. Returns the times of responses, and the number of lines that were sent.
    fn end(self) -> Result<(Vec<f64>, u64)> {
        self.has_ended.store(true, Ordering::Relaxed);
        let ended = |text| move |_| anyhow::anyhow!("{text}");
        let responses = self.http.join().map_err(ended("the HTTP client has panicked"))??;
        self.tcp.join().map_err(ended("the TCP client has panicked"))??;
        Ok((responses, self.next.load(Ordering::Relaxed)))
    }
}

impl Served {
    pub(super) fn judge(&self, judgement: &mut Judgement, reloads: u64, busy: bool) -> Result<()> {
        let [_, median, most] = spread(self.reloads.iter().copied()).map(|it| it * 1e3);
        judgement.line(format_args!(
            "  reloads      {reloads}, {median:.1} ms in the median, at most {most:.1}"
        ));
        let limit = if busy { BUSY } else { LIMIT }.as_secs_f64() * 1e3;
        let [_, median, most] = spread(self.responses.iter().copied()).map(|it| it * 1e3);
        let text = format!(
            "{} over one connection, {median:.2} ms in the median, at most {most:.1}; limit {limit:.0} ms",
            self.responses.len()
        );
        judgement.add("responses", text, most <= limit);
        let text = format!("{} sent, {} missing at the sink that stays", self.sent, self.missing);
        judgement.add("lines", text, self.missing == 0);
        judgement.add("summary", &self.summary, !self.summary.contains("failed"));
        growth::judge(judgement, &self.samples, reloads)
    }
}
