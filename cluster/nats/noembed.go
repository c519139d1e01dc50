//go:build noembed

package nats

import "errors"

func startServer(*Options) (server, error) {
	return nil, errors.New("cluster/nats: this program was built without the embedded server (tag noembed)")
}
