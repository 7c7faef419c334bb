//! Answers `GET /metrics` from the newest snapshot, in a separate thread, with one answer per connection. The
//! capture is unaffected. Slow, silent or frequent clients have a limited number of connections and limited
//! time.

use super::answering::Answering;
use super::host::AllowedHosts;
use crate::output;
use anyhow::Result;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use magscope_fleet::{ConnectionLimiter, ConnectionLimits, address_key};
use magscope_sensor::exposition::Format;
use magscope_sensor::{LatestSnapshot, Snapshot};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum number of connections, in total and per address. Beyond it the oldest is closed: an answer takes
/// milliseconds, so idle connections block no others.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { total: 64, each: 32 };
/// Maximum duration of a connection.
const LONGEST: Duration = Duration::from_secs(10);
/// Timeout of a request.
const ASKING: Duration = Duration::from_secs(5);
/// Maximum size of a request, bytes.
const LONGEST_REQUEST: usize = 16 << 10;

/// Cache of answers: each snapshot is formatted once per format.
#[derive(Default)]
struct Answers(Mutex<[Option<Written>; Format::ALL.len()]>);

/// A snapshot and its formatted answer.
type Written = (Arc<Snapshot>, Bytes);

impl Answers {
    fn of(&self, board: &LatestSnapshot, format: Format) -> Bytes {
        let newest = board.newest();
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [open, text, messages] = &mut *answers;
        let last = match format {
            Format::OpenMetrics => open,
            Format::Text => text,
            Format::Protobuf => messages,
        };
        match last {
            Some((of, written)) if Arc::ptr_eq(of, &newest) => written.clone(),
            _ => {
                let written = Bytes::from(format.write(&newest));
                *last = Some((newest, written.clone()));
                written
            }
        }
    }
}

/// Starts to answer. Called after privileges are dropped.
pub fn answer_http(
    listener: TcpListener,
    board: Arc<LatestSnapshot>,
    hosts: AllowedHosts,
) -> Result<Answering> {
    output::note(&format!("listening at http://{}/metrics", listener.local_addr()?));
    Answering::start(listener, |listener, ended| serve(listener, board, hosts, ended))
}

async fn serve(
    listener: tokio::net::TcpListener,
    board: Arc<LatestSnapshot>,
    hosts: AllowedHosts,
    mut ended: oneshot::Receiver<()>,
) {
    let limiter = ConnectionLimiter::default();
    let answers = Arc::new(Answers::default());
    loop {
        let accepted = tokio::select! { came = listener.accept() => came, _ = &mut ended => return };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, or the client has disconnected: try again later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(local) = stream.local_addr() else { continue };
        let (permit, _) = limiter.admit_or_replace(&address_key(from.ip()), CONNECTIONS);
        let (board, answers, hosts) = (board.clone(), answers.clone(), hosts.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                std::future::ready(Ok::<_, Infallible>(answer(&request, &board, &answers, &hosts, local)))
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(ASKING)
                .max_buf_size(LONGEST_REQUEST)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            // A connection error concerns only its peer.
            let connection = tokio::time::timeout(LONGEST, connection);
            tokio::select! { _ = connection => {}, () = permit.replaced() => {} }
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    board: &LatestSnapshot,
    answers: &Answers,
    hosts: &AllowedHosts,
    local: SocketAddr,
) -> Response<Full<Bytes>> {
    let plain = |status: StatusCode, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if !hosts.allow(request, local) {
        let text = "this name is not answered: ask by the address, or start with `--allow-host NAME`\n";
        return plain(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let format = Format::accepted(accept.unwrap_or_default());
            let mut response = Response::new(Full::new(answers.of(board, format)));
            let content_type = hyper::header::HeaderValue::from_static(format.content_type());
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            response
        }
        "/" => plain(StatusCode::OK, "magnet-scope: /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "there is /metrics and nothing else\n"),
    }
}
