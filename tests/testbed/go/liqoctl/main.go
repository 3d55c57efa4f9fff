// The check of connections of Liqo's gateways, by itself: it asks the gateway at the other end of a
// tunnel whether it is there, answers what that asks, and prints each word of what comes of it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/liqotech/liqo/pkg/gateway/connection/conncheck"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conncheck CLUSTER ADDRESS")
		os.Exit(2)
	}
	peer, address := os.Args[1], os.Args[2]
	check, err := conncheck.NewConnChecker(&conncheck.Options{
		PingPort:          12345,
		PingBufferSize:    1024,
		PingLossThreshold: 5,
		PingInterval:      200 * time.Millisecond,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx := context.Background()
	told := func(connected bool, latency time.Duration, _ time.Time) error {
		fmt.Printf("%t %d\n", connected, latency.Microseconds())
		return nil
	}
	if err := check.AddSender(ctx, peer, address, told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go check.RunReceiver(ctx)
	go check.RunReceiverDisconnectObserver(ctx)
	check.RunSender(peer)
}
