// A consumer with nats.go that only acknowledges messages, for comparison with nats_consumer. It can also fill a stream.
//
//	bare fill ADDRESS STREAM FILE      creates a stream with a message for each line of the file
//	bare consume ADDRESS STREAM NAME N consumes N messages with a durable consumer, and acknowledges each
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 4 {
		return fmt.Errorf("expected `fill ADDRESS STREAM FILE` or `consume ADDRESS STREAM NAME N`")
	}
	connection, err := nats.Connect(arguments[1])
	if err != nil {
		return err
	}
	defer connection.Close()
	switch {
	case arguments[0] == "fill":
		return fill(connection, arguments[2], arguments[3])
	case arguments[0] == "consume" && len(arguments) == 5:
		count, err := strconv.ParseUint(arguments[4], 10, 64)
		if err != nil {
			return err
		}
		return consume(connection, arguments[2], arguments[3], count)
	}
	return fmt.Errorf("unknown: %q", arguments)
}

func fill(connection *nats.Conn, stream, path string) error {
	streams, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return err
	}
	config := jetstream.StreamConfig{Name: stream, Subjects: []string{stream + ".>"}}
	if _, err = streams.CreateStream(context.Background(), config); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := append([]byte(nil), lines.Bytes()...)
		// The server may need long for the messages that were published before.
		if _, err := streams.PublishAsync(stream+".a", line, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	select {
	case <-streams.PublishAsyncComplete():
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("not every message was confirmed")
	}
}

func consume(connection *nats.Conn, stream, name string, count uint64) error {
	streams, err := jetstream.New(connection)
	if err != nil {
		return err
	}
	config := jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy}
	consumer, err := streams.CreateOrUpdateConsumer(context.Background(), stream, config)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	taken := uint64(0)
	// By default Consume fetches up to 500 messages ahead, as nats_consumer does.
	consuming, err := consumer.Consume(func(message jetstream.Msg) {
		if err := message.Ack(); err != nil {
			ended <- err
			return
		}
		taken++
		if taken == count {
			ended <- nil
		}
	})
	if err != nil {
		return err
	}
	defer consuming.Stop()
	if err := <-ended; err != nil {
		return err
	}
	return connection.Flush()
}
