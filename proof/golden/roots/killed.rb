create 'cf', 'f', {NAME=>'g', VERSIONS=>3}
30.times{|i| put 'cf', "row%02d" % (i%7), "f:q#{i%3}", 'value'*(i*3)+i.to_s}
30.times{|i| put 'cf', "row%02d" % (i%5), "g:q#{i%4}", "short#{i}"}
put 'cf','ttl','f:q','v',{TTL=>1000000000}
put 'cf','ttl','f:q2','v',{TTL=>1000000000}
delete 'cf','row01','g:q1'
deleteall 'cf','row03'
10.times{|i| put 'ns1:ft', "k#{i}", 'f:q', "three#{i}"}
put 'enc','50','c:q','unflushed'
flush 'cf'
delete 'cf','row02','f:q0'
put 'cf','row05','f:q0','newer'
flush 'cf'
sleep 1
major_compact 'cf'
10.times{|i| put 'cf', "late%02d" % i, "f:q", 'late'*i}
put 'off2','x','f:y','z' rescue 1
create 'fresh','f'
put 'fresh','1','f:q','one'
incr 'cf','cnt','f:n',5
append 'cf','late00','f:q','more'
create 'halves','f'
10.times{|i| put 'halves', "h#{i}", 'f:q', "h#{i}"}
flush 'halves'
compaction_switch false
split 'halves','h5'
sleep 4
count 'cf'
count 'enc'
count 'ns1:ft'
scan 'cf', {VERSIONS=>5}
scan 'ns1:ft'
