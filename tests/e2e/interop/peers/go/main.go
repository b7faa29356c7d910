// A peer for libraries in Go: see ../README.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: peer LIBRARY REDIS_URL NAME TTL_MS")
	}
	var servers []*redis.Options
	for _, url := range strings.Split(args[1], ",") {
		options, err := redis.ParseURL(url)
		if err != nil {
			return err
		}
		servers = append(servers, options)
	}
	ttl, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	locks, err := open(args[0], servers, time.Duration(ttl)*time.Millisecond)
	if err != nil {
		return err
	}
	client := redis.NewClient(servers[0])
	if err := client.Ping(context.Background()).Err(); err != nil {
		return err
	}
	return obey(locks, client, args[2])
}

// obey reads orders until the input ends.
func obey(locks Locks, client *redis.Client, name string) error {
	fmt.Println("ready")
	lock := locks(name)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		order := strings.Fields(orders.Text())
		numbers := make([]int, len(order))
		for i, word := range order {
			numbers[i], _ = strconv.Atoi(word)
		}
		switch {
		case len(order) == 1 && order[0] == "try":
			held, err := lock.Try()
			if err != nil {
				return err
			}
			say(held, "held", "busy")
		case len(order) == 1 && order[0] == "acquire":
			if err := lock.Acquire(); err != nil {
				return err
			}
			fmt.Println("held")
		case len(order) == 1 && order[0] == "release":
			released, err := lock.Release()
			if err != nil {
				return err
			}
			say(released, "released", "not-held")
		case len(order) == 5 && order[0] == "count":
			counted, err := count(locks, client, name, order[1], numbers[2], numbers[3], numbers[4])
			if err != nil {
				return err
			}
			fmt.Println("counted", counted)
		case len(order) == 5 && order[0] == "work":
			if err := work(locks, name, numbers[1], order[2] == "apart", numbers[3], numbers[4]); err != nil {
				return err
			}
		default:
			return fmt.Errorf("what is %q?", orders.Text())
		}
	}
	return orders.Err()
}

func say(whether bool, yes, no string) {
	if whether {
		fmt.Println(yes)
	} else {
		fmt.Println(no)
	}
}
