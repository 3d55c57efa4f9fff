// Command coredns is the released CoreDNS with its default set of plugins. It is a program of its own because it
// registers flags globally, which would take --version away from the Kubernetes programs.
package main

import (
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/core/plugin"
)

func main() {
	coremain.Run()
}
