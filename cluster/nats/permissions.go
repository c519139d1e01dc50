package nats

import (
	"fmt"
	"slices"

	"drumbeat/cluster"
)

// Permissions are the subjects that a user of a NATS account needs for a crawl.
type Permissions struct {
	Publish, Subscribe []string
}

// NeededPermissions returns the permissions for a crawl, and no others: its streams and buckets, which nodes
// make if they are missing, its subjects, and the inboxes below them. With all, they are those of a node,
// otherwise those for reading the status.
func NeededPermissions(crawl string, nodes int, all bool) (Permissions, error) {
	if !validCrawl(crawl) || nodes < 1 || nodes > cluster.MaxNodes {
		return Permissions{}, fmt.Errorf("cluster/nats: crawl %q of %d nodes", crawl, nodes)
	}
	e := Transport{o: Options{Crawl: crawl}}
	var p Permissions
	own := fmt.Sprintf("db.%s.>", crawl)
	if all {
		// Links, requests and answers; the client asks before it makes a bucket.
		p.Publish = append(p.Publish, own, "$JS.API.INFO")
	}
	for b := range cluster.Buckets {
		name := e.bucketName(b)
		if all {
			p.Publish = append(p.Publish, "$KV."+name+".>")
		}
		p.Publish = append(p.Publish, streamAPI("KV_"+name, all)...)
		p.Publish = append(p.Publish, "$JS.API.DIRECT.GET.KV_"+name+".>")
	}
	for node := range nodes {
		if name := e.streamName(node); all {
			p.Publish = append(p.Publish, streamAPI(name, all)...)
		} else {
			p.Publish = append(p.Publish, "$JS.API.STREAM.INFO."+name)
		}
	}
	p.Subscribe = []string{own}
	if !all {
		p.Subscribe = []string{fmt.Sprintf("db.%s.i.>", crawl)}
	}
	slices.Sort(p.Publish)
	return p, nil
}

// streamAPI returns the subjects of JetStream's API for a stream: for reading, and with all also for making,
// changing and purging it.
func streamAPI(name string, all bool) []string {
	list := []string{"$JS.API.STREAM.INFO." + name}
	for _, call := range []string{"CREATE", "MSG.NEXT", "DELETE"} {
		list = append(list, fmt.Sprintf("$JS.API.CONSUMER.%s.%s.>", call, name))
	}
	if all {
		for _, call := range []string{"CREATE", "UPDATE", "PURGE"} {
			list = append(list, fmt.Sprintf("$JS.API.STREAM.%s.%s", call, name))
		}
	}
	return list
}
