//! WebSockets through a reverse proxy, with a server and a client that know nothing of it: Python's `websockets`.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use crate::support::home::Home;
use crate::tunnels::PYTHON;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output, run};

const SERVER: &str = "
import asyncio, sys, websockets
async def echo(socket, path=None):
    async for message in socket:
        await socket.send(message)
async def main():
    async with websockets.serve(echo, '127.0.0.1', int(sys.argv[1]), max_size=None):
        await asyncio.Future()
asyncio.run(main())
";

const CLIENT: &str = "
import asyncio, sys, websockets
async def one(number):
    async with websockets.connect(sys.argv[1], max_size=None) as socket:
        for message in ['text', 'ä' * 70000, bytes(range(256)) * 4096]:
            await socket.send(message)
            assert await socket.recv() == message, number
        await (await socket.ping())
async def main():
    await asyncio.gather(*[one(number) for number in range(20)])
    print('all came back')
asyncio.run(main())
";

#[test]
fn websockets_pass_where_a_rule_opens_them() {
    let home = Home::new();
    let origin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut serve = Command::new(PYTHON);
    let mut server =
        Process::start("websockets", serve.args(["-c", SERVER, &origin.port().to_string()]), &home.path("server"));
    server.wait_until_listening(origin);
    let url = format!("ws://{}/chat", home.listen);
    let ask = || {
        let mut command = client(PYTHON, home.dir.path());
        command.args(["-c", CLIENT, &url]);
        command
    };
    let reverse = format!("mode = \"reverse\"\norigin = \"http://{origin}\"\n");
    let mut closed = home.start(&reverse);
    let refused = output(&mut ask());
    // The server, asked for plain HTTP, wants an upgrade.
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("426"), "{refused:?}");
    assert!(closed.terminate().success());
    let open = format!("{reverse}[[listener.rule]]\naction = \"allow\"\nupgrade = \"websocket\"\n");
    let mut process = home.start(&open);
    assert_eq!(run(&mut ask()).trim(), "all came back");
    assert!(process.terminate().success());
    let log = fs::read_to_string(home.path("access.log")).unwrap();
    let switched = log.lines().filter(|line| line.contains("TCP_TUNNEL/101") && line.contains("/chat")).count();
    assert_eq!(switched, 20, "{log}");
}
