//! Routing of requests to their responses.

use std::{convert::Infallible, future::poll_fn, pin::Pin, time::Duration};

use async_channel::Receiver;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Bytes, Incoming},
};
use serde_json::json;

use super::{
    Access,
    body::Body,
    flows::{ConnectorJson, FlowJson, FlowsJson},
    log, metrics,
    problem::{Answer, Problem},
    reload,
    slots::Slot,
    tap::Events,
    text::{self, decoded},
};
use crate::{
    clock::Clock,
    engine::{FlowStatus, Kind},
    executor,
    flow::owner_of,
    run::RunHandle,
};

/// Maximum size of the body of a request, in bytes. A body is read and its content is ignored.
const BODY: usize = 64 << 10;
/// Maximum time until the body of a request is complete.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Time within which the executor of a healthy process runs a new task.
const RESPONDS: Duration = Duration::from_secs(2);

/// The description of this API in the `OpenAPI` format.
const OPENAPI: &str = include_str!("openapi.json");

/// State that is needed to answer requests.
pub(super) struct Routes {
    pub(super) access: Access,
    pub(super) run: RunHandle,
    /// Number of flows of the run.
    pub(super) flows: usize,
    /// Closed at the end of the run.
    pub(super) stopped: Receiver<Infallible>,
    pub(super) pulse: executor::Pulse,
    pub(super) clock: Clock,
}

/// Path of a request.
#[derive(Clone, Copy)]
enum Path<'p> {
    Health,
    Ready,
    Metrics,
    OpenApi,
    Flows,
    Flow(&'p str),
    Connector(&'p str, &'p str),
    Change(&'p str, &'p str, Change),
    Drain(&'p str),
    RestartPipeline(&'p str, &'p str),
    Reload,
    Log,
    Tap(&'p str, &'p str, &'p str),
}

/// A function that changes a connector of a flow. Returns whether the connector exists.
type Change = fn(&RunHandle, &str, &str) -> bool;

impl<'p> Path<'p> {
    fn of(parts: &[&'p str]) -> Option<Self> {
        Some(match parts {
            ["healthz"] => Self::Health,
            ["readyz"] => Self::Ready,
            ["metrics"] => Self::Metrics,
            ["v1", "openapi.json"] => Self::OpenApi,
            ["v1", "reload"] => Self::Reload,
            ["v1", "log"] => Self::Log,
            ["v1", "flows"] => Self::Flows,
            ["v1", "flows", flow] => Self::Flow(flow),
            ["v1", "flows", flow, "connectors", connector] => Self::Connector(flow, connector),
            ["v1", "flows", flow, "connectors", connector, change] => {
                let change = match *change {
                    "pause" => RunHandle::pause,
                    "resume" => RunHandle::resume,
                    "restart" => RunHandle::restart,
                    _ => return None,
                };
                Self::Change(flow, connector, change)
            }
            ["v1", "flows", flow, "drain"] => Self::Drain(flow),
            ["v1", "flows", flow, "pipelines", pipeline, "restart"] => {
                Self::RestartPipeline(flow, pipeline)
            }
            ["v1", "flows", flow, "tap", component, port] => Self::Tap(flow, component, port),
            _ => return None,
        })
    }

    /// Returns whether requests to the path, or some of them, change something.
    fn changes(self) -> bool {
        matches!(
            self,
            Self::Change(..)
                | Self::Drain(..)
                | Self::RestartPipeline(..)
                | Self::Reload
                | Self::Log
        )
    }

    /// Returns whether the path is a health probe. Probes need no token.
    fn is_probe(self) -> bool {
        matches!(self, Self::Health | Self::Ready)
    }
}

impl Routes {
    /// Returns the response to a request that arrived on the connection with this slot.
    pub(super) async fn answer(&self, request: Request<Incoming>, slot: &Slot) -> Response<Body> {
        self.checked(request, slot).await.unwrap_or_else(Problem::into_response)
    }

    async fn checked(&self, request: Request<Incoming>, slot: &Slot) -> Answer {
        let path = request.uri().path().to_owned();
        let parts: Vec<String> = path.split('/').skip(1).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let path = Path::of(&parts);
        self.access.check(&request, path.is_some_and(Path::is_probe))?;
        let path = path.ok_or_else(|| {
            let detail = "unknown path; /v1/openapi.json lists the paths";
            Problem::new(StatusCode::NOT_FOUND, detail)
        })?;
        // Clients without a token may send probes, so a connection may lose its slot even while a probe is in progress.
        let answering = (!path.is_probe()).then(|| slot.answering());
        let answer = self.respond(path, request).await?;
        Ok(answer.map(|body| body.during(answering)))
    }

    /// Returns the response to a request that passed the access control.
    async fn respond(&self, path: Path<'_>, request: Request<Incoming>) -> Answer {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_change = request.method() == Method::POST;
        match (path, request.method()) {
            (Path::Log, &Method::GET | &Method::HEAD) => {}
            (_, &Method::POST) if path.changes() => {
                without_body(request.into_body(), &self.clock).await?;
            }
            (Path::Log, _) => return Err(Problem::method("GET, HEAD, POST")),
            _ if path.changes() => return Err(Problem::method("POST")),
            (_, &Method::GET | &Method::HEAD) => {}
            _ => return Err(Problem::method("GET, HEAD")),
        }
        match path {
            Path::Health => self.health().await,
            Path::Ready => self.ready(),
            Path::Metrics => {
                let content_type = "text/plain; version=0.0.4; charset=utf-8";
                let metrics = metrics::text(
                    &self.run.flows(),
                    &self.run.metrics().all(),
                    &self.run.reloads().status(),
                );
                Ok(text::plain(StatusCode::OK, content_type, metrics))
            }
            Path::OpenApi => Ok(text::plain(StatusCode::OK, "application/json", OPENAPI)),
            Path::Flows => {
                let flows = self.run.flows().iter().map(FlowJson::from).collect();
                let reload = (&self.run.reloads().status()).into();
                Ok(text::json(StatusCode::OK, &FlowsJson { flows, reload }))
            }
            Path::Flow(flow) => Ok(text::json(StatusCode::OK, &FlowJson::from(&self.flow(flow)?))),
            Path::Connector(flow, connector) => self.connector(flow, connector, StatusCode::OK),
            Path::Drain(name) => {
                // A flow that has ended counts as drained.
                if let Some(flow) = self.run.flow(name) {
                    flow.drain_on_request();
                }
                Ok(text::json(StatusCode::ACCEPTED, &FlowJson::from(&self.flow(name)?)))
            }
            Path::RestartPipeline(flow, pipeline) => self.restart_pipeline(flow, pipeline),
            Path::Reload => reload::answer(&self.run, &query).await,
            Path::Log if is_change => log::change(&self.run, &query),
            Path::Log => log::levels(),
            Path::Tap(flow, component, port) => self.tap(flow, component, port),
            Path::Change(flow, connector, change) => {
                if self.flow(flow)?.state.is_over() {
                    return Err(ended(flow, "its connectors can no longer be changed"));
                }
                let sink = owner_of(connector);
                if sink != connector {
                    let detail = format!(
                        "`{connector}` is the queue on disk of `{sink}`, which cannot be paused or restarted; pause or \
                         restart `{sink}`"
                    );
                    return Err(Problem::new(StatusCode::CONFLICT, detail));
                }
                change(&self.run, flow, connector);
                self.connector(flow, connector, StatusCode::ACCEPTED)
            }
        }
    }

    fn flow(&self, name: &str) -> Result<FlowStatus, Problem> {
        let mut flows = self.run.flows();
        if let Some(found) = flows.iter().position(|flow| flow.name == name) {
            return Ok(flows.swap_remove(found));
        }
        if self.run.is_starting(self.flows) {
            let detail = "the flows of the run have not started; try again";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        Err(missing("flow", name, flows.iter().map(|flow| flow.name.as_str())))
    }

    fn connector(&self, flow: &str, name: &str, status: StatusCode) -> Answer {
        let flow = self.flow(flow)?;
        let found = flow.connectors.iter().find(|connector| connector.connector == name);
        found.map(|found| text::json(status, &ConnectorJson::from(found))).ok_or_else(|| {
            let names = flow.connectors.iter().map(|connector| connector.connector.as_str());
            missing("connector", name, names)
        })
    }

    fn restart_pipeline(&self, name: &str, pipeline: &str) -> Answer {
        let flow = self.flow(name)?;
        if flow.state.is_over() {
            return Err(ended(name, "its pipelines can no longer be changed"));
        }
        if !self.run.restart_pipeline(name, pipeline) {
            let pipelines = flow.components.iter().filter(|it| it.kind == Kind::Pipeline);
            return Err(missing("pipeline", pipeline, pipelines.map(|it| it.name.as_str())));
        }
        Ok(text::json(StatusCode::ACCEPTED, &FlowJson::from(&self.flow(name)?)))
    }

    /// Returns the events of a port as a stream. If the component has two sides with this port, the stream contains the
    /// events of both.
    fn tap(&self, flow: &str, component: &str, port: &str) -> Answer {
        let status = self.flow(flow)?;
        if status.state.is_over() {
            return Err(ended(flow, "its ports have no events"));
        }
        let name = status.name;
        let Some(flow) = self.run.flow(&name) else {
            return Err(missing("flow", flow, std::iter::empty()));
        };
        let Some(ports) = flow.ports(component) else {
            let components = flow.status().components;
            let mut names: Vec<&str> = components.iter().map(|it| it.name.as_str()).collect();
            names.dedup();
            return Err(missing("component", component, names.into_iter()));
        };
        let listening = flow.listen(component, port);
        if listening.is_empty() {
            return Err(missing("port", port, ports.iter().map(String::as_str)));
        }
        let what = format!("{name}/{component}/{port}");
        let events = Events::of(listening, &what, self.stopped.clone(), self.clock.clone());
        Ok(text::with(StatusCode::OK, "text/event-stream", Body::stream(events)))
    }

    /// Returns the response to a liveness probe, which depends on whether the executor runs tasks.
    async fn health(&self) -> Answer {
        if self.pulse.responds(RESPONDS).await {
            return Ok(text::json(StatusCode::OK, &json!({ "healthy": true })));
        }
        Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the executor has not run a task within 2 s; the log names the calls of plugins that block its threads",
        ))
    }

    /// Returns the response to a readiness probe, which depends on whether all flows run and all their connectors are
    /// connected.
    fn ready(&self) -> Answer {
        let awaited = self.run.awaited(self.flows);
        if awaited.is_empty() {
            return Ok(text::json(StatusCode::OK, &json!({ "ready": true })));
        }
        let detail = format!("not ready: {}", awaited.join(", "));
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
    }
}

fn missing<'n>(what: &str, name: &str, names: impl Iterator<Item = &'n str>) -> Problem {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let detail = format!("there is no {what} `{name}`; available: {available}");
    Problem::new(StatusCode::NOT_FOUND, detail)
}

fn ended(flow: &str, consequence: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, format!("the flow `{flow}` has ended; {consequence}"))
}

/// Reads the body of a request and ignores it.
async fn without_body(mut body: Incoming, clock: &Clock) -> Result<(), Problem> {
    let reads = async {
        let mut length = 0;
        loop {
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            match frame {
                None => return Ok(()),
                Some(Ok(frame)) => length += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) => {
                    let detail = "the body of the request is incomplete; send no body";
                    return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
                }
            }
            if length > BODY {
                let detail = "the body has more than 64 KiB; send no body";
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
            }
        }
    };
    let late = async {
        clock.sleep(BODY_TIME).await;
        let detail = "the body did not arrive within 10 s; send no body";
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail))
    };
    executor::first(reads, late).await
}
