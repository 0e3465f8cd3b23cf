package engine

import (
	"log"
	"os"
)

func fail() {
	if os.Getenv("X") != "" {
		os.Exit(1)
	}
	log.Fatalf("no")
}
