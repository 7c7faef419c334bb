//! The server of an agent or relay: Arrow Flight over the memory of each host.

use crate::client_filter::ClientFilter;
use crate::derived;
use crate::feed::Feed;
use crate::hosts::Hosts;
use crate::link::{Link, Listen, Reporter, links};
use crate::log::{Kind, PeerLog};
use crate::memory::{Holds, Memory};
use crate::outbox::Outbox;
use crate::pki::Peer;
use crate::readers::ReaderBudget;
use crate::request::{LONGEST_TICKET, Request, StreamContent};
use crate::rows::Rows;
use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use magscope_core::node::NodeInfo;
use magscope_session::Packer;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Request as Call, Response, Status, Streaming};

/// Maximum number of concurrent streams per connection.
const MOST_STREAMS_EACH: u32 = 16;
/// Maximum number of queued messages per stream. The capture memory is the real queue; this one only keeps the
/// transport busy.
const WAITING: usize = 1;
/// Interval of keep-alive probes to a silent client, and their timeout.
const ALIVE: Duration = Duration::from_secs(20);

/// Description of an agent or a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Program and version, `magnet-scope 0.1.0`.
    pub tool: String,
    /// Streams that are being read.
    pub streams: usize,
    /// Memory that serves them, bytes.
    pub reader_bytes: u64,
    /// Limit of that memory, bytes.
    pub reader_limit_bytes: u64,
    /// The hosts: one for an agent, several for a relay.
    pub hosts: Vec<AboutHost>,
}

/// Description of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutHost {
    /// Id of its stream; each start of the capture has a new one.
    pub stream: String,
    /// The node that is captured.
    pub node: NodeInfo,
    /// Maximum size of the memory, bytes.
    pub limit_bytes: u64,
    /// Fill level of the memory.
    pub holds: Holds,
    /// True if the capture has ended.
    pub ended: bool,
}

/// Serves until `stop` is set; active transfers then have a short time to finish. All readers together use at
/// most `reader_bytes`.
///
/// # Errors
/// A listener that cannot be used, or an error of the transport.
pub async fn serve(
    hosts: Arc<Hosts>,
    listeners: Vec<Listen>,
    reader_bytes: u64,
    report: Reporter,
    stop: Arc<AtomicBool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let log = Arc::new(PeerLog::new(report));
    let links: ReceiverStream<io::Result<Link>> = links(listeners, &hosts, &log)?;
    let readers = ReaderBudget::new(hosts.clone(), reader_bytes);
    let agent = Agent { hosts, readers, log: log.clone() };
    let service = FlightServiceServer::new(agent).max_decoding_message_size(LONGEST_TICKET * 2);
    let server = Server::builder()
        .max_concurrent_streams(MOST_STREAMS_EACH)
        .http2_keepalive_interval(Some(ALIVE))
        .http2_keepalive_timeout(Some(ALIVE))
        .http2_max_header_list_size(16 << 10)
        .add_service(service)
        .serve_with_incoming(links);
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            log.flush(Instant::now());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    match futures::future::select(Box::pin(server), Box::pin(stopped)).await {
        futures::future::Either::Left((ended, _)) => Ok(ended?),
        futures::future::Either::Right(_) => Ok(()),
    }
}

struct Agent {
    hosts: Arc<Hosts>,
    readers: Arc<ReaderBudget>,
    log: Arc<PeerLog>,
}

type Stream<T> = BoxStream<'static, Result<T, Status>>;

impl Agent {
    fn about(&self, peer: &Peer) -> About {
        About {
            tool: format!("magnet-scope {}", env!("CARGO_PKG_VERSION")),
            streams: self.readers.streams(),
            reader_bytes: self.readers.bytes(),
            reader_limit_bytes: self.readers.limit_bytes(),
            hosts: self.hosts.all().iter().map(|memory| about_host(memory, peer)).collect(),
        }
    }

    /// The requested host: by name, or the only one.
    fn host(&self, name: Option<&str>) -> Result<Arc<Memory>, Status> {
        let hosts = self.hosts.all();
        let names = || hosts.iter().map(|memory| memory.info().host.as_str()).collect::<Vec<_>>().join(", ");
        match (name, hosts.as_slice()) {
            (None, [only]) => Ok(only.clone()),
            (None, _) => Err(Status::invalid_argument(format!("say which `host`: {}", names()))),
            (Some(name), hosts) => hosts
                .iter()
                .find(|memory| memory.info().host == name)
                .cloned()
                .ok_or_else(|| Status::not_found(format!("that host is not here; there are {}", names()))),
        }
    }

    fn flight(request: &Request, give: StreamContent) -> Result<FlightInfo, Status> {
        let path = request.host.iter().chain([&request.table]).cloned().collect();
        Ok(FlightInfo {
            schema: schema(give)?,
            flight_descriptor: Some(FlightDescriptor {
                r#type: DescriptorType::Path as i32,
                path,
                ..FlightDescriptor::default()
            }),
            endpoint: vec![FlightEndpoint {
                ticket: Some(Ticket { ticket: request.ticket().into() }),
                ..FlightEndpoint::default()
            }],
            total_records: -1,
            total_bytes: -1,
            ordered: true,
            ..FlightInfo::default()
        })
    }

    /// The meaning of a descriptor: the name of a table with all stored data, or a complete request.
    fn described(descriptor: &FlightDescriptor) -> Result<(Request, StreamContent), Status> {
        let request = match (descriptor.path.as_slice(), descriptor.cmd.is_empty()) {
            ([table], true) => whole_table(None, table),
            ([host, table], true) => whole_table(Some(host), table),
            ([], false) => Request::parse(&descriptor.cmd).map_err(Status::invalid_argument)?,
            _ => {
                return Err(Status::invalid_argument(
                    "a flight is a path of a table's name, with a host's before it or without, or a request as its command",
                ));
            }
        };
        let give = request.give().map_err(Status::not_found)?;
        Ok((request, give))
    }
}

fn about_host(memory: &Memory, peer: &Peer) -> AboutHost {
    let node = Rows::new(&peer.grants).host(memory.info().clone());
    AboutHost {
        stream: memory.stream().to_owned(),
        node,
        limit_bytes: memory.limit_bytes(),
        holds: memory.holds(),
        ended: memory.has_ended(),
    }
}

/// A request for all stored data of a table.
fn whole_table(host: Option<&str>, table: &str) -> Request {
    Request {
        table: table.to_owned(),
        host: host.map(str::to_owned),
        from: crate::memory::Start::Oldest,
        pull: true,
        ..Request::default()
    }
}

/// The schema of a stream as a complete message, as Flight requires.
fn schema(give: StreamContent) -> Result<Bytes, Status> {
    let message = Packer::new().and_then(|packer| match give {
        StreamContent::Packets => packer.schema(None),
        StreamContent::Rows(table) => packer.schema(Some(table)),
        StreamContent::Flat(table) => packer.schema_of(&derived::schema(table)),
    });
    message.map(Bytes::from).map_err(|error| Status::internal(error.to_string()))
}

fn peer<T>(call: &Call<T>) -> Result<Peer, Status> {
    call.extensions().get::<Peer>().cloned().ok_or_else(|| Status::unauthenticated("nobody knows who you are"))
}

#[tonic::async_trait]
impl FlightService for Agent {
    type HandshakeStream = Stream<HandshakeResponse>;
    type ListFlightsStream = Stream<FlightInfo>;
    type DoGetStream = Stream<FlightData>;
    type DoPutStream = Stream<PutResult>;
    type DoActionStream = Stream<arrow_flight::Result>;
    type ListActionsStream = Stream<ActionType>;
    type DoExchangeStream = Stream<FlightData>;

    async fn handshake(
        &self,
        _: Call<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(Status::unimplemented("who you are is said by your certificate, or by the Unix socket"))
    }

    async fn list_flights(&self, _: Call<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        let hosts = self.hosts.all();
        let several = hosts.len() > 1;
        // Generated one by one, because a relay can have many.
        let flights = hosts.into_iter().flat_map(move |memory| {
            StreamContent::all().map(move |(name, give)| {
                let host = Some(memory.info().host.as_str()).filter(|_| several);
                Agent::flight(&whole_table(host, name), give)
            })
        });
        Ok(Response::new(stream::iter(flights).boxed()))
    }

    async fn get_flight_info(&self, call: Call<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        let (request, give) = Agent::described(call.get_ref())?;
        Agent::flight(&request, give).map(Response::new)
    }

    async fn poll_flight_info(&self, _: Call<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("flights are there at once: use GetFlightInfo"))
    }

    async fn get_schema(&self, call: Call<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let (_, give) = Agent::described(call.get_ref())?;
        Ok(Response::new(SchemaResult { schema: schema(give)? }))
    }

    async fn do_get(&self, call: Call<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let peer = peer(&call)?;
        let request = Request::parse(&call.get_ref().ticket).map_err(Status::invalid_argument)?;
        let give = request.give().map_err(Status::not_found)?;
        let terms_filter = ClientFilter::new(&request.terms, &peer.grants).map_err(Status::invalid_argument)?;
        let memory = self.host(request.host.as_deref())?;
        let derived = if let StreamContent::Flat(table) = give {
            Some(request.derived(table).map_err(Status::invalid_argument)?)
        } else {
            None
        };
        let work_bytes = derived.as_ref().map_or(0, |derived| derived::work_bytes(derived.table));
        let permit = self.readers.admit(&peer, work_bytes).map_err(|full| {
            self.log.write(Kind::Refused, || format!("{} is refused a stream: {full}", peer.name));
            Status::resource_exhausted(full.to_string())
        })?;
        let (out, rows) = channel(WAITING);
        let out = Outbox::new(out, permit);
        let account = out.account();
        let failed = |error: String| Status::internal(error);
        let run: Box<dyn FnOnce() + Send> = if let Some(derived) = derived {
            Box::new(move || derived::run(&memory, &request, derived, terms_filter, &out))
        } else {
            let feed =
                Feed::new(memory, request, give, terms_filter, out).map_err(|e| failed(e.to_string()))?;
            Box::new(move || feed.run())
        };
        let (log, name) = (self.log.clone(), peer.name);
        let thread = std::thread::Builder::new().name("magnet-feed".to_owned());
        let run = move || {
            log.write(Kind::Began, || format!("{name} reads"));
            run();
            log.write(Kind::Ended, || format!("{name} has left"));
        };
        thread.spawn(run).map_err(|error| failed(error.to_string()))?;
        // Messages in the transport belong to the stream as well.
        let rows = ReceiverStream::new(rows).map(move |row| {
            let _ = &account;
            row
        });
        Ok(Response::new(rows.boxed()))
    }

    async fn do_put(&self, _: Call<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(Status::unimplemented("an agent takes no data"))
    }

    async fn do_exchange(
        &self,
        _: Call<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("an agent takes no data"))
    }

    async fn do_action(&self, call: Call<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let peer = peer(&call)?;
        match call.get_ref().r#type.as_str() {
            "about" => {
                let about = serde_json::to_vec(&self.about(&peer));
                let body = about.map_err(|error| Status::internal(error.to_string()))?.into();
                Ok(Response::new(stream::iter([Ok(arrow_flight::Result { body })]).boxed()))
            }
            _ => Err(Status::unimplemented("there is one action, `about`")),
        }
    }

    async fn list_actions(&self, _: Call<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        let about = ActionType {
            r#type: "about".to_owned(),
            description: "What is captured, and how much of it is kept, as JSON".to_owned(),
        };
        Ok(Response::new(stream::iter([Ok(about)]).boxed()))
    }
}
