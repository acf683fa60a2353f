//! The program as its users have it, with real clients and origins. One program of tests, so that it links once.
//!
//! Every test has its own directory, ports and processes. What keeps the whole machine busy, or changes the limits of this
//! process, stands beside it in programs of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod app_servers;
mod apt;
mod bad_origin;
mod bad_start;
mod bans;
mod beginnings;
mod browser;
mod cache_rules;
mod clock;
mod cluster;
mod cluster_bans;
mod cluster_disks;
mod cluster_faults;
mod cluster_reads;
mod collapse;
mod config;
mod corrupt;
mod costs;
mod curl;
mod dashboard;
mod disk_flags;
mod encodings;
mod engines;
mod failover;
mod first_command;
mod forgotten;
mod full_disk;
mod grpc;
mod handing_over;
mod http2_origin;
mod https_origin;
mod intercept;
mod intercept_ca;
mod intercept_clients;
mod intercept_packages;
mod intercept_weak;
mod key_rules;
mod kills;
mod lab;
mod logins;
mod logs;
mod memory;
mod metrics;
mod mirrors;
mod mirrors_containers;
mod mirrors_digests;
mod mirrors_git;
mod mirrors_listeners;
mod mirrors_maven;
mod mirrors_ready;
mod mirrors_refuse;
mod mirrors_registry;
mod offline;
mod origin_certificates;
mod origin_trust;
mod proxy_protocol;
mod rebinding;
mod reload;
mod resize;
mod restart;
mod sandbox;
mod service;
mod stop_limit;
mod stopping;
mod taking_back;
mod tls;
mod transparent;
mod transparent_hints;
mod transparent_lies;
mod transparent_tls;
mod tune;
mod tunnels;
mod upgrades;
mod upgrading;
