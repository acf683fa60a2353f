# Varnish. Its objects are in memory, as by default: its parameters are in the command that starts it, one pool of threads
# (`thread_pools=1`, one worker as all here have) and `malloc` with as many bytes as the others have disk.
vcl 4.1;

backend origin {
    .host = "@ORIGIN_HOST@";
    .port = "@ORIGIN_PORT@";
}
