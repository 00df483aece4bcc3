# Takes one order after another, and says so.
while true; do
    order=$(redis-cli -h store --raw BRPOP orders 1 | tail -n 1)
    if [ -n "$order" ]; then
        echo "$(hostname) did $order"
        redis-cli -h store INCR done > /dev/null
    fi
done
