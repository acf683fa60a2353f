//! From the file's listeners, or the flags', to the proxy's.

use std::ops::Range;

use anyhow::{Result, bail};
use tinaja_proxy::{
    Action, CertificateFiles, ChainField, Cidr, Config, Diversion, Forwarding, Listener, Mode, OriginUrl, Route,
    Routes, Rule, Upstream,
};
use toml::Spanned;

use super::file::{FileCertificate, FileChainField, FileDiversion, FileForwarding, FileListener, FileMode, FileRule};
use super::source::Source;
use super::upstream::upstream;
use crate::values::{Number, OneOrMore, Text};

/// The listeners of a file. Where there are mirrors, a reverse proxy needs no origin of its own.
///
/// Errors: a listener whose settings do not go together, or two that overlap; with the line.
pub fn listeners(files: Vec<FileListener>, has_mirrors: bool, source: &Source<'_>) -> Result<Vec<Listener>> {
    let mut made: Vec<Listener> = Vec::new();
    for file in files {
        let at = file.address.span();
        made.push(listener(file, has_mirrors, source)?);
        // One after the other, so that the line is that of the one that is too many.
        let so_far = Config { listeners: made.clone(), ..Config::default() };
        so_far.check().map_err(|error| source.error(at, error))?;
    }
    Ok(made)
}

fn listener(file: FileListener, has_mirrors: bool, source: &Source<'_>) -> Result<Listener> {
    let address = file.address.get_ref().0.0;
    let mut rules = Vec::new();
    if let Some(at) = file.by.as_ref().map(Spanned::span).filter(|_| file.mode != FileMode::Transparent) {
        let what =
            "only connections to a transparent proxy come by something: set mode = \"transparent\", or remove this";
        return Err(source.error(at, what));
    }
    let mode = match file.mode {
        FileMode::Forward | FileMode::Transparent => {
            let route = file.route.first().map(Spanned::span).or(file.upstream.as_ref().map(Spanned::span));
            let origin = file.origin.as_ref().map(Spanned::span).or(file.origins.as_ref().map(Spanned::span));
            if let Some(at) = origin.or(route) {
                let what = "clients of this proxy choose the origin themselves: set mode = \"reverse\", or remove this";
                return Err(source.error(at, what));
            }
            if let Some(OneOrMore(networks)) = file.allow_destination.map(Spanned::into_inner) {
                rules.extend(networks.into_iter().map(|Text(network)| Rule::allow_destination(network)));
            }
            if let Some(OneOrMore(ports)) = file.allow_connect_port.map(Spanned::into_inner) {
                // From 1 to 65535, as was checked when it was read.
                let ports = ports.into_iter().filter_map(|Number(port)| u16::try_from(port).ok());
                rules.extend(ports.map(Rule::allow_connect_port));
            }
            match file.mode {
                FileMode::Transparent if !file.certificate.is_empty() => {
                    let what = "clients of a transparent proxy want other servers' certificates: remove [[listener.certificate]], and \
                                see [[intercept]] for looking into HTTPS";
                    return Err(source.error(file.address.span(), what));
                }
                FileMode::Transparent => Mode::Transparent(match file.by.map(Spanned::into_inner) {
                    None | Some(FileDiversion::Redirect) => Diversion::Redirect,
                    Some(FileDiversion::Tproxy) => Diversion::Tproxy,
                }),
                FileMode::Forward | FileMode::Reverse => Mode::Forward,
            }
        }
        FileMode::Reverse => {
            let destination = file.allow_destination.as_ref().map(Spanned::span);
            if let Some(at) = destination.or(file.allow_connect_port.as_ref().map(Spanned::span)) {
                let what = "a reverse proxy only reaches its own origins: set mode = \"forward\", or remove this";
                return Err(source.error(at, what));
            }
            let at = file.address.span();
            let origin = file.origin.map(|origin| origin.into_inner().0);
            let origins = file.origins.map(|origins| all_of(origins.into_inner()));
            let there = file.upstream.as_ref().map_or(at.clone(), Spanned::span);
            let default = upstream(origin, origins, file.upstream.map(Spanned::into_inner));
            let default = default.map_err(|error| source.error(there, error))?;
            let has_none = default.is_none() && file.route.is_empty();
            let for_mirrors = has_none && has_mirrors;
            Mode::Reverse(if for_mirrors { Routes::default() } else { routes(file.route, default, at, source)? })
        }
    };
    // The rules as they are written come first: whoever writes them wants them to decide.
    let written = file.rule.into_iter().map(|file| rule(file, source)).collect::<Result<Vec<_>>>()?;
    let rules: Vec<Rule> = written.into_iter().chain(rules).collect();
    let certificates = file.certificate.into_iter();
    let certificates =
        certificates.map(|FileCertificate { file, key }| CertificateFiles { certificate: file, key }).collect();
    let pass_tags = file.pass_tags;
    let forwarding = match file.forwarded {
        Some(forwarded) if mode.is_for_clients() => {
            let what = "only a reverse proxy tells its origins who asks: set mode = \"reverse\", or remove forwarded";
            return Err(source.error(forwarded.span(), what));
        }
        None => Forwarding::default(),
        Some(forwarded) => match forwarded.into_inner() {
            FileForwarding::XForwarded => Forwarding::XForwarded,
            FileForwarding::Forwarded => Forwarding::Forwarded,
            FileForwarding::Both => Forwarding::Both,
            FileForwarding::None => Forwarding::None,
        },
    };
    let proxy_protocol = match file.proxy_protocol {
        Some(networks) if mode.diversion().is_some() => {
            let what = "connections to a transparent proxy come from clients themselves, so that nobody could say in a header who they \
                        are: remove proxy_protocol";
            return Err(source.error(networks.span(), what));
        }
        networks => networks.map(|networks| networks.into_inner().0).unwrap_or_default(),
    };
    let proxy_protocol = proxy_protocol.into_iter().map(|Text(network)| network).collect();
    let trusted_proxies: Vec<Cidr> = match file.trusted_proxies {
        Some(networks) if mode.diversion().is_some() => {
            let what = "connections to a transparent proxy come from clients themselves, so that no proxy stands between: remove \
                        trusted_proxies";
            return Err(source.error(networks.span(), what));
        }
        networks => networks
            .map_or(Vec::new(), |networks| networks.into_inner().0.into_iter().map(|Text(network)| network).collect()),
    };
    let client_field = match file.client_field {
        Some(field) if trusted_proxies.is_empty() => {
            let what =
                "no proxy is believed, so no field says who the client is: set trusted_proxies, or remove client_field";
            return Err(source.error(field.span(), what));
        }
        field => match field.map(Spanned::into_inner) {
            None | Some(FileChainField::XForwardedFor) => ChainField::XForwardedFor,
            Some(FileChainField::Forwarded) => ChainField::Forwarded,
        },
    };
    let rules = rules.into();
    Ok(Listener {
        mode,
        rules,
        certificates,
        pass_tags,
        proxy_protocol,
        trusted_proxies,
        client_field,
        forwarding,
        ..Listener::forward(address)
    })
}

fn routes(
    files: Vec<Spanned<super::file::FileRoute>>,
    default: Option<Upstream>,
    at: Range<usize>,
    source: &Source<'_>,
) -> Result<Routes> {
    let mut routes: Vec<Route> = Vec::new();
    for file in files {
        let at = file.span();
        let file = file.into_inner();
        if file.host.is_none() && file.path.is_none() {
            bail!(
                source.error(at, "a route needs a host or a path; for all other requests, set the listener's origin")
            );
        }
        let origin = upstream(file.origin.map(|Text(one)| one), file.origins.map(all_of), file.upstream);
        let origin = origin.and_then(|origin| origin.ok_or("a route needs an origin, or a list of origins".into()));
        let origin = origin.map_err(|error| source.error(at.clone(), error))?;
        routes.push(Route { host: file.host, path: file.path.unwrap_or("/".into()), origin });
        Routes::new(routes.clone(), None).map_err(|error| source.error(at, error))?;
    }
    Routes::new(routes, default).map_err(|error| source.error(at, error))
}

fn all_of(origins: Vec<Text<OriginUrl>>) -> Vec<OriginUrl> {
    origins.into_iter().map(|Text(origin)| origin).collect()
}

fn rule(file: Spanned<FileRule>, source: &Source<'_>) -> Result<Rule> {
    let (at, file) = (file.span(), file.into_inner());
    if !file.upgrade.0.is_empty() && !file.destination.0.is_empty() {
        bail!(source.error(
            at,
            "a rule about upgrades takes no destination, since it counts before the address is known: deny the destination by a rule of its own"
        ));
    }
    let networks = |OneOrMore(networks): OneOrMore<Text<Cidr>>| networks.into_iter().map(|Text(one)| one).collect();
    Ok(Rule {
        action: file.action.0.0,
        clients: networks(file.client),
        methods: file.method.0.into_iter().map(|Text(method)| method.0).collect(),
        ports: file.port.0.into_iter().map(|ports| ports.0).collect(),
        destinations: networks(file.destination),
        upgrades: file.upgrade.0.into_iter().map(|Text(protocol)| protocol.0).collect(),
    })
}

/// Adds the rules of flags to every forward and transparent proxy, in front: what is said last, on the command line, decides.
///
/// Errors: there is none.
pub fn open(listeners: &mut [Listener], rules: &[Rule]) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let mut forward = listeners.iter_mut().filter(|listener| listener.mode.is_for_clients()).peekable();
    if forward.peek().is_none() {
        bail!("--allow-destination and --allow-connect-port need a forward or transparent proxy, and there is none");
    }
    for listener in forward {
        debug_assert!(rules.iter().all(|rule| rule.action == Action::Allow));
        listener.rules.put_first(rules);
    }
    Ok(())
}
