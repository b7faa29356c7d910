package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Lock is one lock, used by one task.
type Lock interface {
	Try() (bool, error)
	Acquire() error
	// Release returns whether the lock was still held.
	Release() (bool, error)
}

// Locks returns the lock of a name.
type Locks func(name string) Lock

func open(library string, servers []*redis.Options, ttl time.Duration) (Locks, error) {
	switch library {
	case "redsync":
		var pools []syncredis.Pool
		for _, options := range servers {
			pools = append(pools, goredis.NewPool(redis.NewClient(options)))
		}
		sync := redsync.New(pools...)
		return func(name string) Lock {
			return &syncLock{sync.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt))}
		}, nil
	case "rueidislock", "rueidislock-noloop":
		// One key a lock, as there is one server.
		option := rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{servers[0].Addr}, Password: servers[0].Password},
			KeyMajority:  1,
			KeyValidity:  ttl,
		}
		if library == "rueidislock-noloop" {
			// Faster, as long as nobody waits: its waiters miss messages then. A try that took longer than 20 ms would count as a wait.
			option.NoLoopTracking = true
			option.TryNextAfter = ttl
		}
		locker, err := rueidislock.NewLocker(option)
		if err != nil {
			return nil, err
		}
		return func(name string) Lock { return &rueidisLock{locker: locker, name: name} }, nil
	default:
		return nil, fmt.Errorf("no library %q here", library)
	}
}

type syncLock struct {
	mutex *redsync.Mutex
}

func (l *syncLock) Try() (bool, error) {
	err := l.mutex.TryLock()
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return false, nil
	}
	return err == nil, err
}

func (l *syncLock) Acquire() error {
	return l.mutex.Lock()
}

func (l *syncLock) Release() (bool, error) {
	released, err := l.mutex.Unlock()
	var taken *redsync.ErrTaken
	if errors.Is(err, redsync.ErrLockAlreadyExpired) || errors.As(err, &taken) {
		return false, nil
	}
	return released, err
}

type rueidisLock struct {
	locker rueidislock.Locker
	name   string
	cancel context.CancelFunc
}

func (l *rueidisLock) Try() (bool, error) {
	_, cancel, err := l.locker.TryWithContext(context.Background(), l.name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return false, nil
	}
	l.cancel = cancel
	return err == nil, err
}

func (l *rueidisLock) Acquire() error {
	_, cancel, err := l.locker.WithContext(context.Background(), l.name)
	l.cancel = cancel
	return err
}

func (l *rueidisLock) Release() (bool, error) {
	if l.cancel == nil {
		return false, nil
	}
	l.cancel()
	l.cancel = nil
	return true, nil
}
