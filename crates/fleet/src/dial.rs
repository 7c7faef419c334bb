//! The viewer's end of a connection.

use crate::address::Address;
use crate::error::{FleetError, Likely};
use crate::io::Io;
use crate::pki::Folder;
use crate::server::About;
use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// Timeout for any answer of an agent.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of an agent's message, bytes.
const LONGEST_MESSAGE: usize = 16 << 20;
/// Maximum size of an agent's description, bytes: names of hops, namespaces and cgroups.
const LONGEST_ABOUT: usize = 8 << 20;

/// The viewer's certificate and its authorities.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The folder of the files.
    pub folder: Folder,
    /// Name of the certificate: `viewer-NAME`.
    pub identity: String,
}

/// The read half of a connection; it stores the error of a failure, because the transport above only reports a
/// closed connection.
struct ErrorRecorder<R> {
    inner: R,
    broke: Broke,
}

/// The error that broke a connection, if any.
#[derive(Clone, Debug, Default)]
pub struct Broke(Arc<Mutex<Option<(String, Likely)>>>);

impl Broke {
    fn by(&self, error: &io::Error) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            // rustls has a long message for an unexpected end of file
            let ended = error.kind() == io::ErrorKind::UnexpectedEof;
            let because = if ended { "the line broke off".to_owned() } else { error.to_string() };
            *slot = Some((because, likely(error)));
        }
    }

    /// A short form of [`Self::explain`].
    pub fn because(&self, address: &Address, status: &Status) -> String {
        match self.explain(address, status) {
            FleetError::Connect { because, .. } | FleetError::Refused { because, .. } => because,
            other => other.to_string(),
        }
    }

    /// The cause of a failed call.
    pub fn explain(&self, address: &Address, status: &Status) -> FleetError {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            Some((because, likely)) => FleetError::Connect { address: address.to_string(), because, likely },
            None => refused(address, status),
        }
    }
}

/// A connected agent.
pub struct Dialed {
    /// The RPC client.
    pub client: FlightServiceClient<Channel>,
    /// The agent's description.
    pub about: About,
    /// The error that breaks the connection later.
    pub broke: Broke,
}

/// Connects and requests the agent's description.
pub async fn dial(address: &Address, credentials: Option<&Credentials>) -> Result<Dialed, FleetError> {
    let late = || failed(address, &"it does not answer", Likely::Nobody);
    let reached = tokio::time::timeout(PATIENCE, reach(address, credentials)).await;
    let (io, first) = reached.map_err(|_| late())??;
    // The transport receives this connection once and never dials by itself.
    let broke = Broke::default();
    let (read, write) = tokio::io::split(io);
    // Data that is read already precedes the rest.
    let read = ErrorRecorder { inner: Cursor::new(first).chain(read), broke: broke.clone() };
    let mut once = Some(TokioIo::new(tokio::io::join(read, write)));
    let connector = tower::service_fn(move |_| {
        let io = once.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        std::future::ready(io)
    });
    // TLS checks the agent's name; HTTP ignores it.
    let endpoint = Endpoint::from_static("http://agent");
    let channel = tokio::time::timeout(PATIENCE, endpoint.connect_with_connector(connector)).await;
    let channel = channel.map_err(|_| late())?.map_err(|error| failed(address, &error, likely(&error)))?;
    let client = FlightServiceClient::new(channel);
    let about = ask(&client, &broke, address).await?;
    Ok(Dialed { client: client.max_decoding_message_size(LONGEST_MESSAGE), about, broke })
}

impl Dialed {
    /// Requests the current description.
    pub async fn ask(&mut self, address: &Address) -> Result<About, FleetError> {
        self.about = ask(&self.client, &self.broke, address).await?;
        Ok(self.about.clone())
    }
}

async fn ask(
    client: &FlightServiceClient<Channel>,
    broke: &Broke,
    address: &Address,
) -> Result<About, FleetError> {
    let mut client = client.clone().max_decoding_message_size(LONGEST_ABOUT);
    let action = Action { r#type: "about".to_owned(), ..Action::default() };
    let asked = async {
        let mut answers = client.do_action(Request::new(action)).await?.into_inner();
        answers.message().await?.ok_or_else(|| Status::internal("it says nothing of itself"))
    };
    let late = |_| failed(address, &"it does not answer", Likely::Nobody);
    let answer = tokio::time::timeout(PATIENCE, asked).await.map_err(late)?;
    let answer = answer.map_err(|status| broke.explain(address, &status))?;
    serde_json::from_slice(&answer.body).map_err(|error| FleetError::Refused {
        address: address.to_string(),
        because: format!("what it says of itself is not understood ({error}): is it another version?"),
    })
}

impl<R: AsyncRead + Unpin> AsyncRead for ErrorRecorder<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Err(error)) = &read {
            self.broke.by(error);
        }
        read
    }
}

/// Connects; returns the connection and the data read so far.
async fn reach(
    address: &Address,
    credentials: Option<&Credentials>,
) -> Result<(Box<dyn Io>, Vec<u8>), FleetError> {
    let nobody = |error: io::Error| failed(address, &error, Likely::Nobody);
    match address {
        Address::Unix(path) => Ok((Box::new(UnixStream::connect(path).await.map_err(nobody)?), Vec::new())),
        Address::Loopback(at) => {
            let stream = TcpStream::connect(at).await.map_err(nobody)?;
            stream.set_nodelay(true).map_err(nobody)?;
            Ok((Box::new(stream), Vec::new()))
        }
        Address::Host { host, port } => {
            let Some(Credentials { folder, identity }) = credentials else {
                return Err(failed(address, &"there is no certificate to say who you are", Likely::Viewer));
            };
            let name =
                ServerName::try_from(host.clone()).map_err(|error| failed(address, &error, Likely::Unknown))?;
            let config = folder.connects(identity)?;
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(nobody)?;
            stream.set_nodelay(true).map_err(nobody)?;
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
            let broken = |error: io::Error| failed(address, &error, likely(&error));
            let mut stream = stream.map_err(broken)?;
            // With TLS 1.3 the client finishes before the agent has checked its certificate. An agent that
            // accepts it sends first, as HTTP/2 requires. Another sends the reason, which a concurrent write
            // would lose.
            let mut first = vec![0; 1024];
            let read = stream.read(&mut first).await.map_err(broken)?;
            if read == 0 {
                return Err(failed(address, &"it hangs up without a word", Likely::Unknown));
            }
            first.truncate(read);
            Ok((Box::new(stream), first))
        }
    }
}

fn failed(address: &Address, because: &dyn std::fmt::Display, likely: Likely) -> FleetError {
    FleetError::Connect { address: address.to_string(), because: because.to_string(), likely }
}

/// The meaning of an agent's refusal.
fn refused(address: &Address, status: &Status) -> FleetError {
    let address_text = address.to_string();
    match status.code() {
        Code::Unknown | Code::Unavailable | Code::Cancelled | Code::Internal if status.source().is_some() => {
            let (because, likely) = status
                .source()
                .map_or_else(Default::default, |error| (innermost_message(error), likely(error)));
            FleetError::Connect { address: address_text, because, likely }
        }
        _ => FleetError::Refused {
            address: address_text,
            because: status.message().chars().filter(|c| !c.is_control()).take(300).collect(),
        },
    }
}

/// The innermost error of a chain, which is the most specific.
fn innermost_message(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The side at fault, according to the TLS error.
pub(crate) fn likely(error: &(dyn Error + 'static)) -> Likely {
    let mut at: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = at {
        let tls = error.downcast_ref::<rustls::Error>().or_else(|| {
            let io = error.downcast_ref::<io::Error>()?;
            io.get_ref()?.downcast_ref::<rustls::Error>()
        });
        match tls {
            Some(rustls::Error::AlertReceived(_)) => return Likely::Viewer,
            Some(_) => return Likely::Agent,
            None => at = error.source(),
        }
    }
    Likely::Unknown
}
