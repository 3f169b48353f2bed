//! hyper's hello-world, which reads the body of each request and answers as a sink of events would.

use std::convert::Infallible;

use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Builder,
    task::{LocalSet, spawn_local},
};

use crate::Result;

#[derive(Debug, clap::Args)]
pub(crate) struct Hello {
    port: u16,
}

impl Hello {
    pub(crate) fn run(&self) -> Result {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind(("127.0.0.1", self.port)).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                spawn_local(serve(stream));
            }
        })
    }
}

async fn serve(stream: TcpStream) {
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello));
    if let Err(error) = served.await {
        eprintln!("a connection: {error}");
    }
}

async fn hello(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let status = match request.into_body().collect().await {
        Ok(_) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}
