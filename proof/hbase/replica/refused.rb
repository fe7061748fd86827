# The commands of HBase's shell that change something, which a read replica refuses, for
# `cargo xtask test --only replica-tools`. HBase has no such replica to record: refused.txt is what Bellows printed.
java = @shell.admin.instance_variable_get('@admin'); nil
refresh = lambda { |table| client = org.apache.hadoop.hbase.client.example.RefreshHFilesClient.new(java.getConfiguration); client.refreshHFiles(org.apache.hadoop.hbase.TableName.valueOf(table)); client.close; 'refreshed' }; nil
put 't', 'a', 'f:q', 'three'
incr 't', 'a', 'f:count'
append 't', 'a', 'f:q', 'x'
delete 't', 'a', 'f:q'
deleteall 't', 'a'
put 'nowhere', 'a', 'f:q', 'v'
create 'new', 'f'
create 't', 'f'
alter 't', NAME => 'h'
disable 't'
enable 'ns:other'
drop 'ns:other'
truncate_preserve 't'
create_namespace 'ns2'
drop_namespace 'ns'
flush 't'
major_compact 't'
split 't', 'c'
snapshot 't', 's'
balance_switch false
refresh.call('t')
get 't', 'a', {COLUMN => 'f:q', VERSIONS => 3}
count 't'
list
