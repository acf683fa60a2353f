// Says in X-Parsed what Node's HTTP server makes of each request.
const http = require('node:http');

const server = http.createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
        const body = Buffer.concat(pieces);
        const { method, url, headers } = request;
        response.setHeader('X-Parsed', `${method} ${url} ${headers.host} ${body.length}:${body.toString('hex')}`);
        response.setHeader('Content-Length', 0);
        response.end();
    });
});
server.listen(Number(process.argv[2]), '127.0.0.1');
