//! The viewer's end of a connection.

use crate::address::Address;
use crate::error::{FleetError, Likely};
use crate::pki::Folder;
use crate::server::About;
use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// How long anything may take before an agent counts as gone.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Longest message of an agent, bytes.
const LONGEST_MESSAGE: usize = 64 << 20;
/// Longest that an agent may say of itself: names of hops, namespaces and cgroups.
const LONGEST_ABOUT: usize = 8 << 20;

/// By which certificate a viewer is known, and whom it trusts.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Where the files are.
    pub folder: Folder,
    /// Which certificate: `viewer-NAME`.
    pub identity: String,
}

trait Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Io for T {}

/// Connects, and asks the agent what it is.
pub async fn dial(
    address: &Address,
    credentials: Option<&Credentials>,
) -> Result<(FlightServiceClient<Channel>, About), FleetError> {
    let late = || failed(address, &"it does not answer", Likely::Nobody);
    let io = tokio::time::timeout(PATIENCE, reach(address, credentials)).await.map_err(|_| late())??;
    // Connected already: the transport is told of it once, and never dials by itself.
    let mut once = Some(TokioIo::new(io));
    let connector = tower::service_fn(move |_| {
        let io = once.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        std::future::ready(io)
    });
    // The name of an agent is checked by TLS; to HTTP it means nothing.
    let endpoint = Endpoint::from_static("http://agent");
    let channel = tokio::time::timeout(PATIENCE, endpoint.connect_with_connector(connector)).await;
    let channel = channel.map_err(|_| late())?.map_err(|error| failed(address, &error, likely(&error)))?;
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(LONGEST_ABOUT);
    let action = Action { r#type: "about".to_owned(), ..Action::default() };
    let asked = async {
        let mut answers = client.do_action(Request::new(action)).await?.into_inner();
        answers.message().await?.ok_or_else(|| Status::internal("it says nothing of itself"))
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await.map_err(|_| late())?;
    let answer = answer.map_err(|status| refused(address, &status))?;
    let about: About = serde_json::from_slice(&answer.body).map_err(|error| FleetError::Refused {
        address: address.to_string(),
        because: format!("what it says of itself is not understood ({error}): is it another version?"),
    })?;
    Ok((client.max_decoding_message_size(LONGEST_MESSAGE), about))
}

async fn reach(address: &Address, credentials: Option<&Credentials>) -> Result<Box<dyn Io>, FleetError> {
    let nobody = |error: io::Error| failed(address, &error, Likely::Nobody);
    match address {
        Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(nobody)?)),
        Address::Loopback(at) => {
            let stream = TcpStream::connect(at).await.map_err(nobody)?;
            stream.set_nodelay(true).map_err(nobody)?;
            Ok(Box::new(stream))
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
            Ok(Box::new(stream.map_err(|error| failed(address, &error, likely(&error)))?))
        }
    }
}

fn failed(address: &Address, because: &dyn std::fmt::Display, likely: Likely) -> FleetError {
    FleetError::Connect { address: address.to_string(), because: because.to_string(), likely }
}

/// What an agent's refusal means. Who is not let in learns that only when it says something: with TLS 1.3 its own part of the
/// handshake is over before its certificate has been looked at.
pub fn refused(address: &Address, status: &Status) -> FleetError {
    let address_text = address.to_string();
    match status.code() {
        Code::Unknown | Code::Unavailable | Code::Cancelled | Code::Internal if status.source().is_some() => {
            let (because, likely) =
                status.source().map_or_else(Default::default, |error| (said(error), likely(error)));
            FleetError::Connect { address: address_text, because, likely }
        }
        _ => FleetError::Refused {
            address: address_text,
            because: status.message().chars().filter(|c| !c.is_control()).take(300).collect(),
        },
    }
}

/// The innermost of a chain of errors, which says most.
fn said(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Which of the two is at fault, as far as TLS tells.
fn likely(error: &(dyn Error + 'static)) -> Likely {
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
