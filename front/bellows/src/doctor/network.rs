//! Checks of names and ports, and of the server that may already run.

use std::net::{IpAddr, SocketAddr};

use env::Runtime;
use serde_json::Value;

use super::{Finding, State};
use crate::page;
use crate::settings::Settings;

/// A server that answers at the web port of these settings.
#[derive(Clone, Debug)]
pub(super) struct RunningServer {
    /// The server's overview, in the form of `/overview.json`; `None` if it cannot be read.
    overview: Option<Value>,
    /// Why the server cannot serve clients, as `/healthz` says; `None` if it can.
    refusal: Option<String>,
}

/// Returns the server at this web port; `None` if none answers there, or if the port is 0.
pub(super) fn running(runtime: &Runtime, web: SocketAddr) -> Option<RunningServer> {
    let at = reachable(web);
    if web.port() == 0 {
        return None;
    }
    runtime.handle().block_on(async {
        let refusal = match page::get(at, "/healthz").await {
            Ok(_) => None,
            Err(page::Error::Status { code: 503, body }) => Some(body.trim().to_owned()),
            Err(_) => return None,
        };
        let overview = page::get(at, "/overview.json").await.ok();
        let overview = overview.and_then(|text| serde_json::from_str(&text).ok());
        Some(RunningServer { overview, refusal })
    })
}

/// Returns the address at which this machine reaches a listener at `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

pub(super) fn examine(
    runtime: &Runtime,
    settings: &Settings,
    running: Option<&RunningServer>,
) -> Vec<Finding> {
    let mut findings = vec![names(runtime, settings)];
    match running {
        Some(running) => findings.extend(of_server(running)),
        None => findings.extend(ports(runtime, settings)),
    }
    findings
}

fn names(runtime: &Runtime, settings: &Settings) -> Finding {
    const CHECK: &str = "names";
    for host in [&settings.host, &settings.master_host] {
        let resolved = runtime.handle().block_on(env::resolve(&format!("{host}:0")));
        let addresses = match resolved {
            Ok(addresses) => addresses.into_iter().map(|address| address.ip()).collect(),
            Err(error) => return no_address(host, &error.to_string()),
        };
        if let Some(finding) = judge_addresses(host, settings.rpc.ip(), addresses) {
            return finding;
        }
    }
    Finding::good(CHECK, format!("clients are told to connect to {}, which leads here", settings.host))
}

fn no_address(host: &str, why: &str) -> Finding {
    Finding::bad(
        "names",
        format!("clients are told to connect to {host:?}, which has no address ({why})"),
        "add the name to DNS or /etc/hosts, or set hbase.regionserver.hostname and hbase.master.hostname to a name that clients \
         resolve",
    )
}

/// Returns what is wrong with the addresses of the host that clients are told, when the server listens at `bind`;
/// `None` if clients can reach it there.
fn judge_addresses(host: &str, bind: IpAddr, addresses: Vec<IpAddr>) -> Option<Finding> {
    let Some(first) = addresses.first() else { return Some(no_address(host, "none was found")) };
    if !bind.is_loopback() && addresses.iter().all(IpAddr::is_loopback) {
        return Some(Finding::warning(
            "names",
            format!("clients are told to connect to {host}, which this machine takes for itself ({first})"),
            "other machines will connect to themselves if they resolve it likewise: remove the name from the 127.0.1.1 line of \
             /etc/hosts, or set hbase.regionserver.hostname to a name with an address of the network",
        ));
    }
    if bind.is_loopback() && !addresses.iter().any(IpAddr::is_loopback) {
        return Some(Finding::bad(
            "names",
            format!("the server listens at {bind}, and clients are told to connect to {host} ({first})"),
            "listen where clients come to, with --bind, or remove hbase.regionserver.hostname and hbase.master.hostname",
        ));
    }
    None
}

fn ports(runtime: &Runtime, settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "ports";
    let _inside = runtime.handle().enter();
    let wanted = [
        (settings.rpc, "--rpc-port"),
        (settings.master, "--master-port"),
        (settings.zookeeper, "--zk-port"),
        (settings.web, "--web-port"),
    ];
    let taken: Vec<Finding> = wanted
        .iter()
        .filter_map(|(address, option)| {
            let error = env::listen(*address).err()?;
            let line = crate::failure::Failure::of_listening(*address, option, &error).to_string();
            let (found, remedy) = line.rsplit_once("; ").unwrap_or((&line, ""));
            Some(Finding::bad(CHECK, found, remedy))
        })
        .collect();
    if !taken.is_empty() {
        return taken;
    }
    let listed: Vec<String> = wanted.iter().map(|(address, _)| address.port().to_string()).collect();
    vec![Finding::good(CHECK, format!("{} are free at {}", listed.join(", "), settings.rpc.ip()))]
}

fn of_server(running: &RunningServer) -> Vec<Finding> {
    const CHECK: &str = "server";
    if let Some(refusal) = &running.refusal {
        let remedy = "wait if regions are being opened; else look into its log";
        return vec![Finding::warning(
            CHECK,
            format!("it runs, and does not serve clients: {refusal}"),
            remedy,
        )];
    }
    let Some(overview) = &running.overview else {
        return vec![Finding::unknown(CHECK, "one runs, of a version that has no overview")];
    };
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let mut findings: Vec<Finding> = overview["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|finding| {
            let state = match finding["severity"].as_str() {
                Some("bad") => State::Bad,
                Some("warn") => State::Warning,
                _ => State::Good,
            };
            Finding::new(CHECK, state, text(finding, "what"), text(finding, "remedy"))
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::good(CHECK, "it runs and finds nothing wrong"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn a_host_name_of_another_machine_is_reported() {
        let judge = |bind: &str, found: &[&str]| {
            judge_addresses("host", bind.parse().expect("an address"), addresses(found))
                .map(|finding| finding.state)
        };
        assert_eq!(judge("127.0.0.1", &["127.0.0.1"]), None);
        assert_eq!(judge("0.0.0.0", &["192.0.2.1"]), None);
        assert_eq!(judge("0.0.0.0", &["127.0.1.1", "192.0.2.1"]), None, "one of them leads here");
        assert_eq!(judge("0.0.0.0", &["127.0.1.1"]), Some(State::Warning), "as Debian writes it");
        assert_eq!(judge("127.0.0.1", &["192.0.2.1"]), Some(State::Bad));
        assert_eq!(judge("127.0.0.1", &[]), Some(State::Bad));
    }

    #[test]
    fn a_listener_at_all_addresses_is_reached_at_the_loopback() {
        let at = |text: &str| reachable(text.parse().expect("an address")).to_string();
        assert_eq!(
            [at("0.0.0.0:5"), at("[::]:5"), at("192.0.2.1:5")],
            ["127.0.0.1:5", "[::1]:5", "192.0.2.1:5"]
        );
    }

    #[test]
    fn a_taken_port_is_named_with_its_option() {
        let runtime = Runtime::start("ports", 1).expect("a thread");
        let taken = {
            let _inside = runtime.handle().enter();
            env::listen("127.0.0.1:0".parse().expect("an address")).expect("a port")
        };
        let any = Some(0);
        let mut start = crate::args::Start {
            rpc_port: any,
            master_port: any,
            zk_port: any,
            web_port: any,
            ..Default::default()
        };
        let settings = Settings::gather(&start).expect("good");
        assert_eq!(ports(&runtime, &settings)[0].state, State::Good);
        start.zk_port = Some(taken.local_addr().expect("bound").port());
        let settings = Settings::gather(&start).expect("good");
        let findings = ports(&runtime, &settings);
        assert_eq!((findings.len(), findings[0].state), (1, State::Bad), "{findings:?}");
        assert!(findings[0].remedy.contains("--zk-port"), "{findings:?}");
    }

    #[test]
    fn the_findings_of_a_running_server_are_passed_on() {
        let running = |overview| of_server(&RunningServer { overview: Some(overview), refusal: None });
        let findings = running(json!({ "findings": [
            { "severity": "bad", "what": "The disk is full.", "remedy": "Free space.", "page": "/log" },
            { "severity": "note", "what": "x", "remedy": "", "page": "/" },
        ]}));
        let states: Vec<State> = findings.iter().map(|finding| finding.state).collect();
        assert_eq!(states, [State::Bad, State::Good]);
        assert_eq!((&findings[0].found[..], &findings[0].remedy[..]), ("The disk is full.", "Free space."));
        assert_eq!(running(json!({ "findings": [] }))[0].state, State::Good);
        let refused = RunningServer { overview: None, refusal: Some("regions are being opened".into()) };
        assert!(of_server(&refused)[0].found.contains("regions are being opened"));
    }
}
