# The end of /init in the machines of scripts/card-clocks.sh, which are `grandmaster` and `follower`.
ip=/bin/ip
tai=37
seconds=25
stamps=
registers=$(head -n 1 /sys/class/net/eth0/device/resource | cut -d' ' -f1)

# Starts ptp4l with time stamps of the card. QEMU's igb stamps received messages of one type, which the driver leaves at
# Sync (TSYNCRXCFG), and takes the next stamp only after a register is read that the driver does not read (RXSATRH).
# It stamps no PTP over UDP.
start_ptp() {
    cat >/etc/ptp.conf <<CONF
[global]
network_transport L2
clockClass 6
clockAccuracy 0x21
utc_offset $tai
# A new rate would move the emulated clock by its product with the time since boot. Both cards have one rate.
clock_servo nullf
first_step_threshold 0.00002
step_threshold 0.01
logSyncInterval -2
logMinDelayReqInterval -2
tx_timestamp_timeout 1000
summary_interval -2
CONF
    ptp4l -f /etc/ptp.conf -i eth0 -m "$@" &
    ptp=$!
    while kill -0 $ptp 2>/dev/null; do
        [ $role = follower ] || devmem $((registers + 0x5f50)) 32 0x100
        devmem $((registers + 0xb630)) 32 >/dev/null
        usleep 100000
    done &
}

# Follows a card, which shows TAI: start_chrony STEPS [DEVICE]
start_chrony() {
    echo "refclock PHC ${2:-/dev/ptp0} poll 0 dpoll -2 offset -$tai
makestep 0.00001 $1" >/etc/chrony.conf
    chronyd -u root -f /etc/chrony.conf
    until chronyc -n -c tracking 2>/dev/null | grep -q ,PHC0,; do sleep 0.5; done
    sleep 5
    chronyc -n -c tracking
}

# Notes the requests of the recorder's thread that reads the card.
trace_requests() {
    cd /sys/kernel/tracing
    echo 'p:request ptp_ioctl number=%si:x32' >kprobe_events
    echo 'r:answer ptp_ioctl result=$retval:s64' >>kprobe_events
    echo 1 >events/kprobes/enable
    cd /
}

print_requests() {
    grep phc-watch /sys/kernel/tracing/trace | sed 's/.* \(number\|result\)=/\1=/' | sort | uniq -c |
        while read -r count what; do echo "MACHINE: $what $count times"; done
}

start_recorder() {
    magnet-scope record -o /recording &
    recorder=$!
    until [ -s /recording/meta.toml ] || ! kill -0 $recorder; do sleep 0.1; done
}

end_recorder() {
    kill -INT $recorder
    wait $recorder && tar c -C / recording readings >/dev/vda && sync && echo "MACHINE: recorded"
}

# REALTIME less the card's clock, between two readings of the time since boot.
read_card() {
    while :; do
        before=$(cut -d' ' -f1 /proc/uptime)
        offset=$(phc_ctl /dev/ptp0 cmp 2>&1 | sed -n 's/.*CLOCK_REALTIME is \(-*[0-9]*\)ns.*/\1/p')
        echo "$before $(cut -d' ' -f1 /proc/uptime) $offset" >>/readings
        sleep 0.5
    done
}

run_grandmaster() {
    # The card shows TAI by definition. Its UTC is the truth.
    phc_ctl /dev/ptp0 set adj $tai
    start_chrony 5
    [ $scenario != utc-offset ] || tai=36
    start_ptp
    until pmc -u -b 0 "SET GRANDMASTER_SETTINGS_NP clockClass 6 clockAccuracy 0x21 offsetScaledLogVariance 0xffff \
currentUtcOffset $tai leap61 0 leap59 0 currentUtcOffsetValid 1 ptpTimescale 1 timeTraceable 1 frequencyTraceable 1 timeSource 0x20" |
        grep -q RESPONSE; do sleep 0.5; done
    echo hello >/www/index.html
    httpd -h /www
    read_card &
    start_recorder
    nc -l -p 9000 </dev/null # the follower's end
    end_recorder
}

run_follower() {
    [ $scenario != software ] || stamps=-S
    start_ptp -s $stamps
    until pmc -u -b 0 'GET PORT_DATA_SET' | grep -q 'portState *SLAVE'; do sleep 0.5; done
    pmc -u -b 0 'GET PORT_HWCLOCK_NP'
    case $scenario in
        right | utc-offset) phc2sys -s eth0 -c CLOCK_REALTIME -w -m & ;;
        software) ;; # ptp4l steers the wall clock itself
        tai) phc2sys -s eth0 -c CLOCK_REALTIME -O 0 -m & ;;
        slewed) timeout 8 phc2sys -s eth0 -c CLOCK_REALTIME -w -m ;;
        second)
            kill $ptp
            phc_ctl /dev/ptp0 adj 1
            start_chrony 5
            ;;
        contradiction)
            phc_ctl /dev/ptp1 set adj $((tai + 1))
            start_chrony 5 /dev/ptp1
            ;;
        jump)
            kill $ptp
            start_chrony -1
            seconds=45 # chronyd takes some of them to follow, and has no bound meanwhile
            ;;
    esac
    sleep 5
    read_card &
    trace_requests
    start_recorder
    end=$(($(cut -d. -f1 /proc/uptime) + seconds))
    until wget -q -O /dev/null http://10.90.0.1/; do sleep 0.5; done
    [ $scenario != slewed ] || adjtimex -t 10000 -f $((500 * 65536)) >/dev/null
    while [ "$(cut -d. -f1 /proc/uptime)" -lt $end ]; do
        wget -q -O /dev/null http://10.90.0.1/
        if [ $scenario = jump ] && [ "$(cut -d. -f1 /proc/uptime)" -ge $((end - 35)) ]; then
            phc_ctl /dev/ptp0 adj 1
            scenario=jumped
        fi
    done
    end_recorder
    print_requests
    until nc 10.90.0.1 9000 </dev/null; do sleep 0.5; done
}

case $role in grandmaster) me=1 ;; follower) me=2 ;; esac
: >/readings
$ip addr add 10.90.0.$me/24 dev eth0
$ip link set eth0 up
until [ "$(cat /sys/class/net/eth0/carrier)" = 1 ]; do sleep 0.1; done
run_$role
echo o >/proc/sysrq-trigger
sleep 60
