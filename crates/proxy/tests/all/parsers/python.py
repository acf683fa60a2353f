"""Says in X-Parsed what Python's HTTP server makes of each request, with the body as its HTTP client reads chunks."""
import http.client
import http.server
import sys


class Body(http.client.HTTPResponse):
    """The standard library's reader of chunks, which belongs to answers, on the body of a request."""

    def __init__(self, stream):
        self.fp = stream
        self.chunked = True
        self.chunk_left = None
        self.length = None
        self._method = "POST"

    def _close_conn(self):
        self.fp = None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rbufsize = -1

    def handle_one_request(self):
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
        elif self.parse_request():
            self.answer()
            self.wfile.flush()

    def answer(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = Body(self.rfile).read()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        host = self.headers.get("Host")
        self.send_response_only(200)
        self.send_header("X-Parsed", f"{self.command} {self.path} {host} {len(body)}:{body.hex()}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
