package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// count lets workers increment a number that only the lock protects, and returns how often they did.
func count(locks Locks, client *redis.Client, name, key string, goal, workers, pauseMs int) (int64, error) {
	var counted atomic.Int64
	turn := func(lock Lock) (done bool, err error) {
		if err := lock.Acquire(); err != nil {
			return true, err
		}
		ctx := context.Background()
		number, err := client.Get(ctx, key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return true, err
		}
		if number < goal {
			if err := client.Set(ctx, key, number+1, 0).Err(); err != nil {
				return true, err
			}
			counted.Add(1)
		}
		_, err = lock.Release()
		return number >= goal, err
	}
	err := together(workers, func(int) error {
		lock := locks(name)
		for {
			if done, err := turn(lock); done || err != nil {
				return err
			}
			if pauseMs > 0 {
				time.Sleep(time.Duration(rand.Int63n(int64(pauseMs) * int64(time.Millisecond))))
			}
		}
	})
	return counted.Load(), err
}

// A task that still waits this long after the end has missed a message, as rueidislock's waiters sometimes do.
const grace = 2 * time.Second

// work lets tasks acquire and release a lock, and prints how long they waited.
func work(locks Locks, name string, tasks int, apart bool, warmUpMs, timeMs int) error {
	from := time.Now().Add(time.Duration(warmUpMs) * time.Millisecond)
	until := from.Add(time.Duration(timeMs) * time.Millisecond)
	var mutex sync.Mutex
	waits := make([][]int64, tasks)
	turns := func(task int) error {
		its := name
		if apart {
			its += "-" + strconv.Itoa(task)
		}
		for lock := locks(its); ; {
			asked := time.Now()
			if err := lock.Acquire(); err != nil {
				return err
			}
			granted := time.Now()
			if _, err := lock.Release(); err != nil {
				return err
			}
			released := time.Now()
			if released.After(until) {
				return nil
			}
			if released.After(from) {
				mutex.Lock()
				waits[task] = append(waits[task], granted.Sub(asked).Microseconds())
				mutex.Unlock()
			}
		}
	}
	end := make(chan error, 1)
	go func() { end <- together(tasks, turns) }()
	select {
	case err := <-end:
		if err != nil {
			return err
		}
	case <-time.After(time.Until(until.Add(grace))):
	}
	mutex.Lock()
	defer mutex.Unlock()
	out := bufio.NewWriter(os.Stdout)
	for _, its := range waits {
		out.WriteString("task")
		for _, wait := range its {
			out.WriteString(" " + strconv.FormatInt(wait, 10))
		}
		out.WriteString("\n")
	}
	fmt.Fprintln(out, "worked")
	return out.Flush()
}

// together does something several times at once, and returns the first error.
func together(times int, do func(int) error) error {
	ends := make(chan error, times)
	for i := range times {
		go func() { ends <- do(i) }()
	}
	for range times {
		if err := <-ends; err != nil {
			return err
		}
	}
	return nil
}
