//! hyper's hello-world, which takes the body of each request and answers as a sink of events would.
use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, StatusCode, body::{Bytes, Incoming}, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;

async fn hello(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let status = match request.into_body().collect().await {
        Ok(_) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Empty::new());
    *response.status_mut() = status;
    Ok(response)
}

fn main() {
    let address = std::env::args().nth(1).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = stream.set_nodelay(true);
            tokio::task::spawn_local(async move {
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello)).await;
            });
        }
    });
}
