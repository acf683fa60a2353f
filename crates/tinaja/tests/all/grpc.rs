//! gRPC through a reverse proxy, HTTP/2 on both sides, with a server and a client that know nothing of it: Python's `grpcio`.

use std::net::SocketAddr;
use std::process::Command;

use crate::support::home::Home;
use crate::tunnels::PYTHON;
use tinaja_testkit::port::free_port;
use tinaja_testkit::process::Process;
use tinaja_testkit::tools::{client, output, run};

/// Messages are plain bytes. `Count` says numbers until it is as large as the message says; `Fail` ends with an error after one message.
const SERVER: &str = "
import grpc, sys
from concurrent.futures import ThreadPoolExecutor
def say(request, context):
    context.set_trailing_metadata((('asked', dict(context.invocation_metadata())['from']), ('bytes-bin', bytes(range(256)))))
    return request[::-1]
def count(request, context):
    for number in range(int(request)):
        yield b'%d ' % number * 1000
    context.set_trailing_metadata((('counted', request.decode()),))
def echo(requests, context):
    for request in requests:
        yield request
def fail(request, context):
    yield b'one'
    context.abort(grpc.StatusCode.NOT_FOUND, 'no such thing: \\u00e4')
server = grpc.server(ThreadPoolExecutor(16))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('test.Echo', {
    'Say': grpc.unary_unary_rpc_method_handler(say),
    'Count': grpc.unary_stream_rpc_method_handler(count),
    'Echo': grpc.stream_stream_rpc_method_handler(echo),
    'Fail': grpc.unary_stream_rpc_method_handler(fail),
}),))
assert server.add_insecure_port('127.0.0.1:' + sys.argv[1])
server.start()
server.wait_for_termination()
";

const CLIENT: &str = "
import grpc, sys, threading
from concurrent.futures import ThreadPoolExecutor
channel = grpc.insecure_channel(sys.argv[1], options=[('grpc.enable_http_proxy', 0)])
say = channel.unary_unary('/test.Echo/Say')
count = channel.unary_stream('/test.Echo/Count')
echo = channel.stream_stream('/test.Echo/Echo')
fail = channel.unary_stream('/test.Echo/Fail')
def trailers(call):
    return {pair.key: pair.value for pair in call.trailing_metadata()}
def unary(number):
    message = b'%d ' % number * 50000
    answer, call = say.with_call(message, metadata=(('from', str(number)),), timeout=60)
    assert answer == message[::-1] and call.code() == grpc.StatusCode.OK, number
    got = trailers(call)
    assert got['asked'] == str(number) and got['bytes-bin'] == bytes(range(256)), got
def stream(number):
    call = count(b'%d' % number, timeout=60)
    assert list(call) == [b'%d ' % each * 1000 for each in range(number)], number
    assert trailers(call)['counted'] == str(number)
for number in range(100):
    unary(number)
list(ThreadPoolExecutor(40).map(stream, range(1, 41)))
# A message goes on once the one before has come back: neither side waits for the other's end.
heard = threading.Semaphore(1)
def messages():
    for number in range(30):
        assert heard.acquire(timeout=60)
        yield b'%d' % number
answers = []
for answer in echo(messages(), timeout=60):
    answers.append(answer)
    heard.release()
assert answers == [b'%d' % number for number in range(30)], answers
got = []
try:
    for answer in fail(b'', timeout=60):
        got.append(answer)
    assert False, 'it did not fail'
except grpc.RpcError as error:
    assert got == [b'one'] and error.code() == grpc.StatusCode.NOT_FOUND, (got, error)
    assert error.details() == 'no such thing: \\u00e4', error.details()
print('all calls ended as they should')
";

#[test]
fn calls_of_each_kind_pass_with_their_trailers() {
    let home = Home::new();
    let origin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut serve = Command::new(PYTHON);
    let mut server =
        Process::start("grpcio", serve.args(["-c", SERVER, &origin.port().to_string()]), &home.path("server"));
    server.wait_until_listening(origin);
    let ask = || {
        let mut command = client(PYTHON, home.dir.path());
        command.args(["-c", CLIENT, &home.listen.to_string()]);
        command
    };
    let reverse =
        |http2| format!("mode = \"reverse\"\norigins = [\"http://{origin}\"]\n[listener.upstream]\nhttp2 = {http2}\n");
    let mut process = home.start(&reverse(true));
    assert_eq!(run(&mut ask()).trim(), "all calls ended as they should");
    assert!(process.terminate().success());
    // Over HTTP/1.1 a gRPC server answers nobody: what passes above is HTTP/2 on both sides.
    let mut process = home.start(&reverse(false));
    assert!(!output(&mut ask()).status.success());
    assert!(process.terminate().success());
}
