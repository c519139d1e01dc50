// Package nats implements cluster.Transport over NATS JetStream: external servers, or one embedded in the
// process.
//
// Names, with c the crawl's id: stream DB_<c>_<to> holds the subjects db.<c>.l.<to>.<from>; the buckets are
// DB_<c> and DB_<c>_net; requests go to db.<c>.ask.<to>.<from>.<kind>; answers and acknowledgements come to
// db.<c>.i.<node>. So a node needs db.<c>.>, $KV.DB_<c>.>, $KV.DB_<c>_net.> and the JetStream API.
//
// Streams are on disk, refuse new messages when full (DiscardNew) and are not compressed. Buckets keep one
// version of a value. In DB_<c> a deleted key leaves a marker for an hour, so the broker's RAM does not grow
// with the number of former keys. In DB_<c>_net a marker would need room, so a deletion purges the message
// with the value's sequence. Missing streams and buckets are made, also after a broker lost them. A node sets
// the limits of its own stream only. The limit of the bucket of leases is raised to Options.LeasesBytes if it
// is lower.
//
// A Reader or Watcher is a pull consumer of its own without acknowledgements, in the broker's RAM. It ends
// with cluster.ErrInterrupted when the connection breaks, the broker drops the consumer, a heartbeat is
// missing for 4 s, or a sequence of the consumer is missing. The client's ordered consumer would continue
// silently, even in a new stream.
//
// The client does not buffer: without a connection every call returns cluster.ErrAway at once. It tries to
// connect every second or two, without limit. Publish does not retry, since that would change the order.
//
// Memory: 32 messages ahead for each Reader, 256 values for each Watcher, cluster.MaxInFlight messages to
// publish, 16 MiB of requests that wait. Goroutines: those of the client and of the embedded server, one for
// each message without a result and for each request being answered. Close waits for all.
//
// Security: addresses other than loopback require tls://, with the system's roots or a CA file. Credentials
// are files: NATS credentials (JWT), an NKey seed, a client certificate. On loopback, without TLS, nodes
// derive an NKey from Options.Secret, and embedded servers a password for their routes. Errors and warnings
// name files, not contents. The embedded server opens no port unless Embed.Listen asks for one; beyond
// loopback it then requires a certificate and the seed. The build tag noembed leaves it out.
//
// Files: the embedded server keeps its own below Embed.Dir. A crawl survives their loss.
package nats
