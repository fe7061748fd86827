# The commands of HBase's shell, one a line, for `cargo xtask shell`. The shell reads this as if somebody typed it.
# "# numbers" after a command: numbers in its output are not compared. "# sorted": the order of its lines is not. "# first": only its
# first line is compared; tasks are listed for a minute after their end, so these lists depend on when the servers started.
java = @shell.admin.instance_variable_get('@admin'); nil
regions = lambda { |table| java.getRegions(org.apache.hadoop.hbase.TableName.valueOf(table)).sort_by { |region| region.getStartKey.to_a } }; nil
encoded = lambda { |table, place| regions.call(table)[place].getEncodedName }; nil
server = java.getRegionServers.first.to_s; nil
wait = lambda { |&done| 300.times { break if done.call; sleep 0.1 } }; nil
class Shell::Commands::Command; def gets; "y\n"; end; end; nil
%w[change_sft change_sft_all flush_master_store list_unknownservers truncate_region peer_modification_enabled peer_modification_switch list_enabled_tables list_disabled_tables].each { |name| Shell.load_command(name, 'ddl') }; @shell.export_commands(self); nil
tracker, source, target = 'hbase.store.file-tracker.impl', 'hbase.store.file-tracker.migration.src.impl', 'hbase.store.file-tracker.migration.dst.impl'; nil

# general
version
table_help
status
status 'summary'
status 'simple' # numbers
status 'detailed' # numbers sorted
status 'replication' # numbers
status 'replication', 'source' # numbers
status 'replication', 'sink' # numbers
status 'unknown'
processlist # numbers first
processlist 'all' # numbers first
processlist 'handler' # numbers
processlist 'rpc' # numbers
processlist 'operation' # numbers

# namespace
list_namespace
list_namespace 'h.*'
create_namespace 'ns1'
create_namespace 'ns2', {'PROPERTY_NAME' => 'PROPERTY_VALUE'}
create_namespace 'ns1'
create_namespace 'hbase'
create_namespace 'a:b'
create_namespace ''
describe_namespace 'ns1'
describe_namespace 'ns2'
describe_namespace 'nowhere'
alter_namespace 'ns2', {METHOD => 'set', 'owner' => 'ops', 'hbase.namespace.quota.maxtables' => '5'}
describe_namespace 'ns2'
alter_namespace 'ns2', {METHOD => 'unset', NAME => 'owner'}
describe_namespace 'ns2'
alter_namespace 'nowhere', {METHOD => 'set', 'a' => 'b'}
alter_namespace 'hbase', {METHOD => 'set', 'a' => 'b'}
list_namespace # sorted
create 'ns1:t', 'f'
create 'ns2:t', 'f'
create 'nowhere:t', 'f'
list_namespace_tables 'ns1'
list_namespace_tables 'hbase'
list_namespace_tables 'nowhere'
drop_namespace 'ns1'
drop_namespace 'nowhere'
drop_namespace 'hbase'
drop_namespace 'default'
disable 'ns1:t'
drop 'ns1:t'
drop_namespace 'ns1'
list_namespace

# procedures
list_procedures # numbers sorted

# ddl
list
list 'ns2:.*'
list 'ns.*'
create 't1', 'f1'
create 't1', 'f1'
create 't2', {NAME => 'f1', VERSIONS => 5, BLOCKCACHE => true}, {NAME => 'f2', COMPRESSION => 'GZ', BLOOMFILTER => 'ROWCOL', DATA_BLOCK_ENCODING => 'FAST_DIFF', KEEP_DELETED_CELLS => 'TTL', MIN_VERSIONS => 1, BLOCKSIZE => 8192, IN_MEMORY => true, NEW_VERSION_BEHAVIOR => true}
create 't3', 'f1', SPLITS => ['10', '20', '30', '40']
create 't4', 'f1', {NUMREGIONS => 4, SPLITALGO => 'HexStringSplit'}
create 't5', 'f1', {NUMREGIONS => 3, SPLITALGO => 'UniformSplit', CONFIGURATION => {'hbase.hregion.scan.loadColumnFamiliesOnDemand' => 'true'}}
create 't6', {NAME => 'f1', CONFIGURATION => {'hbase.hstore.blockingStoreFiles' => '10'}}, METADATA => {'mykey' => 'myvalue'}
create 't7', {NAME => 'mob', IS_MOB => true, MOB_THRESHOLD => 1000, MOB_COMPACT_PARTITION_POLICY => 'weekly'}
create 't8', 'f1', {MAX_FILESIZE => '134217728', MEMSTORE_FLUSHSIZE => '67108864', DURABILITY => 'ASYNC_WAL', SPLIT_ENABLED => false, MERGE_ENABLED => false, NORMALIZATION_ENABLED => true, NORMALIZER_TARGET_REGION_COUNT => 3, PRIORITY => 5, COMPACTION_ENABLED => true}
create 't9', {NAME => 'f1', TTL => 2592000}, OWNER => 'johndoe'
create 'bad'
create 'bad', {NAME => 'f1', VERSIONS => 0}
create 'bad', {NAME => 'f1', COMPRESSION => 'NOPE'}
create 'bad', {NAME => 'f1', BLOOMFILTER => 'NOPE'}
create 'bad', {NAME => 'f1', TTL => -5}
create 'bad', {NAME => 'f1', MIN_VERSIONS => 5, VERSIONS => 2}
create 'bad', {NAME => 'f1', BLOCKSIZE => 10}
create 'bad', {NAME => 'f1', REPLICATION_SCOPE => -1}
create 'bad', {NAME => 'f1', DFS_REPLICATION => -5}
create 'bad', 'f1', {MEMSTORE_FLUSHSIZE => '1000'}
create 'bad', 'f1', {MAX_FILESIZE => '1000'}
create 'bad', 'f1', {METADATA => {'SPLIT_POLICY' => 'no.such.Class'}}
create 'bad', 'f1', {'coprocessor' => '|no.such.Class|1001|'}
create 'bad', 'f1', SPLITS => ['10', '10']
create 'bad', 'f:1'
create 'bad table', 'f'
create '-bad', 'f'
create 'hbase:bad', 'f'
list
describe 't1'
desc 't2'
describe 't3'
describe 't4'
describe 't5'
describe 't6'
describe 't7'
describe 't8'
describe 't9'
describe 'nowhere'
describe 'hbase:meta'
describe 'hbase:namespace'
exists 't1'
exists 'nowhere'
is_enabled 't1'
is_enabled 'nowhere'
is_disabled 't1'
is_disabled 'nowhere'
disable 't1'
disable 't1'
is_disabled 't1'
describe 't1'
enable 't1'
enable 't1'
enable 'nowhere'
disable 'nowhere'
disable 'hbase:meta'
disable 'hbase:namespace'
enable 'hbase:namespace'
drop 't1'
drop 'nowhere'
alter 't1', NAME => 'f1', VERSIONS => 5
alter 't1', 'f2', {NAME => 'f3', TTL => 100}
alter 't1', NAME => 'f3', METHOD => 'delete'
alter 't1', 'delete' => 'f2'
alter 't1', 'delete' => 'nowhere'
alter 't1', 'delete' => 'f1'
alter 't1', MAX_FILESIZE => '134217728'
alter 't1', METHOD => 'table_att_unset', NAME => 'MAX_FILESIZE'
alter 't1', METHOD => 'table_att_unset', NAME => 'NO_SUCH'
alter 't1', CONFIGURATION => {'hbase.hregion.majorcompaction' => '0'}
alter 't1', METHOD => 'table_conf_unset', NAME => 'hbase.hregion.majorcompaction'
alter 't1', {NAME => 'f1', CONFIGURATION => {'hbase.hstore.blockingStoreFiles' => '11'}}
alter 't1', {NAME => 'f1', VERSIONS => 3}, {MAX_FILESIZE => '134217728'}, METADATA => {'mykey' => 'myvalue'}
alter 't1', {NAME => 'f1', VERSIONS => 0}
alter 't1', {NAME => 'f1', COMPRESSION => 'NOPE'}
alter 't1', {REGION_REPLICATION => 1}
alter 't1', {READONLY => true}
put 't1', 'r', 'f1:q', 'v'
alter 't1', {READONLY => false}
alter 't1', 'coprocessor' => '|no.such.Class|1001|'
describe 't1'
alter 'nowhere', NAME => 'f1'
alter 't1'
alter_async 't1', NAME => 'f1', VERSIONS => 7
alter_status 't1'
alter_status 'nowhere'
describe 't1'
show_filters
t = get_table 't1'
locate_region 't3', '25'
locate_region 't3', ''
locate_region 'nowhere', ''
list_regions 't3'
list_regions 't3', server
list_regions 't3', '', ['SERVER_NAME', 'start_key']
list_regions 't3', {SERVER_NAME => 'nowhere'}
list_regions 't3', {LOCALITY_THRESHOLD => 0.8}, ['START_KEY', 'END_KEY', 'SIZE', 'REQ'] # numbers
list_regions 'nowhere'
clone_table_schema 't3', 't10'
clone_table_schema 't3', 't11', false
clone_table_schema 't3', 't11'
clone_table_schema 'nowhere', 't12'
describe 't10'
get_splits 't10'
get_splits 't11'
list 't1.*'

# dml
put 't2', 'r1', 'f1:a', 'one', 100
put 't2', 'r1', 'f1:a', 'two', 200
put 't2', 'r1', 'f1:b', "\x00\x01\xff", 300
put 't2', 'r2', 'f1:a', 'three', 400, {ATTRIBUTES => {'mykey' => 'myvalue'}}
put 't2', 'r3', 'f2:', 'empty qualifier', 500
put 't2', 'r4', 'f2:ttl', 'with a ttl', 600, {TTL => 1000000000000}
put 't2', 'r5', 'f9:a', 'x'
put 'nowhere', 'r1', 'f1:a', 'x'
put 't2', '', 'f1:a', 'x'
put 't2', 'r1', 'f1:a', 'x', -1
put 't2', 'r6', 'f1:a', 'private', {VISIBILITY => 'PRIVATE|SECRET'}
deleteall 't2', 'r6'
get 't2', 'r1'
get 't2', 'r1', {COLUMN => 'f1:a', VERSIONS => 4}
get 't2', 'r1', {COLUMN => ['f1:a', 'f1:b', 'f2']}
get 't2', 'r1', {COLUMN => 'f1:a', TIMESTAMP => 100}
get 't2', 'r1', {COLUMN => 'f1:a', TIMERANGE => [50, 150], VERSIONS => 4}
get 't2', 'r1', {FILTER => "ValueFilter(=, 'binary:two')"}
get 't2', 'r1', {FILTER => "NoSuchFilter()"}
get 't2', 'r1', 'f1:a', 'f1:b'
get 't2', 'r1', ['f1:a', 'f1:b']
get 't2', 'r1', 'f1:a:toString'
get 't2', 'r1', {FORMATTER => 'toString'}
get 't2', 'r1', {COLUMN => 'f1', ATTRIBUTES => {'mykey' => 'myvalue'}}
get 't2', 'r1', {COLUMN => 'f1:a', AUTHORIZATIONS => ['PRIVATE', 'SECRET']}
get 't2', 'r1', {CONSISTENCY => 'TIMELINE'}
get 't2', 'none'
get 't2', 'r1', 'f9'
get 'nowhere', 'r1'
get 't2', ''
incr 't2', 'counter', 'f1:c'
incr 't2', 'counter', 'f1:c', 10
incr 't2', 'counter', 'f1:c', -1, {ATTRIBUTES => {'mykey' => 'myvalue'}}
incr 't2', 'r1', 'f1:a'
incr 't2', 'counter', 'f9:c'
get_counter 't2', 'counter', 'f1:c'
get_counter 't2', 'counter', 'f1:none'
append 't2', 'text', 'f1:c', 'Hello'
append 't2', 'text', 'f1:c', ', world', ATTRIBUTES => {'mykey' => 'myvalue'}
append 't2', 'text', 'f9:c', 'x'
scan 't2', {COLUMNS => ['f1:a', 'f1:b', 'f2']}
scan 't2', {COLUMNS => 'f1:a', LIMIT => 1, STARTROW => 'r1'}
scan 't2', {STARTROW => 'r1', STOPROW => 'r3', VERSIONS => 10}
scan 't2', {REVERSED => true, COLUMNS => ['f1:a', 'f2']}
scan 't2', {ROWPREFIXFILTER => 'r', FILTER => "(QualifierFilter (>=, 'binary:a')) AND (TimestampsFilter (100, 400))"}
scan 't2', {FILTER => org.apache.hadoop.hbase.filter.ColumnPaginationFilter.new(1, 0), STARTROW => 'r'}
scan 't2', {COLUMNS => 'f1', TIMERANGE => [0, 350]}
scan 't2', {ALL_METRICS => true, STARTROW => 'r', STOPROW => 's', COLUMNS => 'f1'} # numbers
scan 't2', {METRICS => ['RPC_RETRIES', 'ROWS_FILTERED', 'ROWS_SCANNED'], STARTROW => 'r', STOPROW => 's'}
scan 't2', {CONSISTENCY => 'TIMELINE', STARTROW => 'r', STOPROW => 's'}
scan 't2', {ISOLATION_LEVEL => 'READ_UNCOMMITTED', STARTROW => 'r', STOPROW => 's'}
scan 't2', {MAX_RESULT_SIZE => 1, STARTROW => 'r', STOPROW => 's'}
scan 't2', {STARTROW => 'r', STOPROW => 's', FORMATTER => 'toString'}
scan 't2', {BATCH => 1, ALLOW_PARTIAL_RESULTS => true, STARTROW => 'r', STOPROW => 's'}
scan 't2', {COLUMNS => 'f9'}
scan 'nowhere'
scan 'hbase:namespace' # sorted
scan 'hbase:meta', {COLUMNS => 'table', FILTER => "KeyOnlyFilter()", LIMIT => 3}
scan 'hbase:meta', {ROWPREFIXFILTER => 't2,', COLUMNS => ['info:regioninfo', 'info:state']}
count 't2'
count 't2', INTERVAL => 2, CACHE => 1000
count 't2', FILTER => "PrefixFilter('r')"
count 't2', COLUMNS => ['f1'], STARTROW => 'r1', STOPROW => 'r3'
count 'nowhere'
delete 't2', 'r1', 'f1:a', 200
get 't2', 'r1', {COLUMN => 'f1:a', VERSIONS => 4}
delete 't2', 'r1', 'f9:a'
scan 't2', {RAW => true, VERSIONS => 10, STARTROW => 'r1', STOPROW => 'r2', COLUMNS => 'f1'}
deleteall 't2', 'r1', 'f1:b', 300
deleteall 't2', 'r2'
deleteall 't2', {ROWPREFIXFILTER => 'r3'}, 'f2:'
deleteall 't2', {ROWPREFIXFILTER => 'r', CACHE => 100}
count 't2'
get_splits 't3'
get_splits 'nowhere'
put 't3', '15', 'f1:q', 'v'
truncate 't3'
count 't3'
get_splits 't3'
truncate_preserve 't4'
get_splits 't4'
truncate 'nowhere'
truncate 'hbase:meta'

# an endpoint, through its Java client
create 'agg', 'f', SPLITS => ['m']
alter 'agg', 'coprocessor' => '|org.apache.hadoop.hbase.coprocessor.AggregateImplementation|1001|'
describe 'agg'
decimal = lambda { |text| String.from_java_bytes(org.apache.hadoop.hbase.util.Bytes.toBytes(Java::JavaMath::BigDecimal.new(text))) }; nil
aggregate = lambda { |call, kind, column| begin; scan = org.apache.hadoop.hbase.client.Scan.new.addColumn('f'.to_java_bytes, column.to_java_bytes); client = org.apache.hadoop.hbase.client.coprocessor.AggregationClient.new(java.getConfiguration); client.send(call, org.apache.hadoop.hbase.TableName.valueOf('agg'), Java::JavaClass.for_name("org.apache.hadoop.hbase.client.coprocessor.#{kind}ColumnInterpreter").ruby_class.new, scan).to_s; rescue => error; error.message.lines.first; end }; nil
put 'agg', 'a', 'f:long', [5].pack('q>')
put 'agg', 'b', 'f:long', [-3].pack('q>')
put 'agg', 'z', 'f:long', [100].pack('q>')
put 'agg', 'a', 'f:double', [1.5].pack('G')
put 'agg', 'z', 'f:double', [-0.25].pack('G')
put 'agg', 'a', 'f:decimal', decimal.call('123456789012345678901.255')
put 'agg', 'b', 'f:decimal', decimal.call('-0.005')
put 'agg', 'z', 'f:decimal', decimal.call('7E+3')
%w[max min sum rowCount avg std median].map { |call| aggregate.call(call, 'Long', 'long') }
%w[max min sum rowCount avg std].map { |call| aggregate.call(call, 'Double', 'double') }
%w[max min sum rowCount median].map { |call| aggregate.call(call, 'BigDecimal', 'decimal') }
aggregate.call('sum', 'Long', 'none')
disable 'agg'
drop 'agg'

# tools
balancer
balancer 'force'
balance_switch false
balancer_enabled
balance_switch true
balancer_enabled
normalizer_switch true
normalizer_enabled
normalize
normalize TABLE_NAME => 't4'
normalizer_switch false
normalizer_enabled
normalizer_switch true
is_in_maintenance_mode
clear_slowlog_responses
clear_slowlog_responses [server]
get_slowlog_responses '*'
get_slowlog_responses '*', {'TABLE_NAME' => 't2', 'LIMIT' => 5}
get_largelog_responses '*'
get_balancer_decisions
get_balancer_decisions LIMIT => 5
get_balancer_rejections
put 't2', 'a', 'f1:q', 'v', 1
put 't2', 'z', 'f1:q', 'v', 1
flush 't2'
flush 't2', 'f1'
flush 't2', 'f9'
flush encoded.call('t2', 0)
flush server
flush 'nowhere'
compact 't2'
compact 't2', 'f1'
compact 't2', 'f9'
compact encoded.call('t2', 0)
compact encoded.call('t2', 0), 'f1'
compact 't7', nil, 'MOB'
compact 't2', nil, 'MOB'
compact 't7', 'mob', 'MOB'
compact 't2', nil, 'OTHER'
compact 'nowhere'
major_compact 't2'
major_compact 't2', 'f1'
major_compact encoded.call('t2', 0)
major_compact 't7', nil, 'MOB'
major_compact 'nowhere'
wait.call { java.getCompactionState(org.apache.hadoop.hbase.TableName.valueOf('t2')).to_s == 'NONE' }; nil
compaction_state 't2'
compaction_state 'nowhere'
compaction_switch false
compaction_switch true
compaction_switch false, server
compaction_switch true, server
compact_rs server
compact_rs server, true
compact_rs 'nowhere,1,1'
clear_compaction_queues server
clear_compaction_queues server, ['short']
clear_compaction_queues server, ['short', 'long']
clear_block_cache 't2' # numbers
clear_block_cache 'nowhere'
splitormerge_switch 'SPLIT', false
splitormerge_enabled 'SPLIT'
split 't2', 'm'
splitormerge_switch 'SPLIT', true
splitormerge_switch 'MERGE', false
splitormerge_enabled 'MERGE'
splitormerge_switch 'MERGE', true
splitormerge_switch 'OTHER', true
split 't2', 'm'
wait.call { regions.call('t2').length == 2 }; nil
get_splits 't2'
split 't2', 'm'
split encoded.call('t6', 0), 'f'
wait.call { regions.call('t6').length == 2 }; nil
get_splits 't6'
split 'nowhere'
split 't8', 'm'
merge_region [encoded.call('t5', 0), encoded.call('t5', 1)]
wait.call { regions.call('t5').length == 2 }; nil
get_splits 't5'
merge_region [encoded.call('t4', 0), encoded.call('t4', 2)]
merge_region [encoded.call('t4', 0), encoded.call('t4', 2)], true
merge_region encoded.call('t4', 0), encoded.call('t4', 1), encoded.call('t4', 2), true
merge_region [encoded.call('t4', 0)]
merge_region [encoded.call('t4', 0), encoded.call('t4', 0)]
merge_region [encoded.call('t4', 0), encoded.call('t2', 0)]
merge_region ['00000000000000000000000000000000', encoded.call('t2', 0)]
get_splits 't4'
count 't2'
scan 't2', {COLUMNS => 'f1:q'}
unassign encoded.call('t6', 0)
unassign encoded.call('t6', 0)
rit
assign encoded.call('t6', 0)
assign encoded.call('t6', 0)
unassign '00000000000000000000000000000000'
assign '00000000000000000000000000000000'
move encoded.call('t6', 0)
move encoded.call('t6', 0), server
move encoded.call('t6', 0), 'nowhere,1,1'
move '00000000000000000000000000000000'
close_region encoded.call('t6', 0)
get 't6', 'r'
regioninfo '1588230740'
regioninfo encoded.call('t6', 0)
regioninfo '00000000000000000000000000000000'
zk_dump # numbers
wal_roll server
wal_roll 'nowhere,1,1'
hbck_chore_run
catalogjanitor_run # numbers
catalogjanitor_switch false
catalogjanitor_enabled
catalogjanitor_switch true
catalogjanitor_enabled
cleaner_chore_run
cleaner_chore_switch false
cleaner_chore_enabled
cleaner_chore_switch true
cleaner_chore_enabled
snapshot_cleanup_switch false
snapshot_cleanup_enabled
snapshot_cleanup_switch true
snapshot_cleanup_enabled
list_deadservers
list_liveservers
clear_deadservers
clear_deadservers 'nowhere,1,1'
list_decommissioned_regionservers
decommission_regionservers ['nowhere']
recommission_regionserver 'nowhere,1,1'
list_decommissioned_regionservers

# commands of shells younger than 2.4
flush_master_store
list_unknownservers
peer_modification_enabled
peer_modification_switch false
peer_modification_enabled
peer_modification_switch true, true
peer_modification_enabled
disable 't9'
list_enabled_tables
list_disabled_tables
enable 't9'
list_disabled_tables
create 'young', 'f', SPLITS => ['10', '20']
put 'young', '05', 'f:q', 'v', 1
put 'young', '15', 'f:q', 'v', 1
put 'young', '25', 'f:q', 'v', 1
flush 'young'
put 'young', '16', 'f:q', 'v', 1
truncate_region encoded.call('young', 1)
scan 'young'
truncate_region regions.call('young').first.getRegionNameAsString
scan 'young'
truncate_region '00000000000000000000000000000000'
truncate_region 'nowhere,,1.00000000000000000000000000000000.'
truncate_region ''
get_splits 'young'
disable 'young'
truncate_region encoded.call('young', 2)
enable 'young'
count 'young'
disable 'young'
drop 'young'

# snapshots
snapshot 't1', 's1'
snapshot 't2', 's2', {SKIP_FLUSH => true}
snapshot 't2', 's3', {TTL => 100000, MAX_FILESIZE => 21474836480}
snapshot 't1', 's1'
snapshot 'nowhere', 's4'
snapshot 't1', 'bad name'
snapshot 'hbase:meta', 's4'
list_snapshots.sort # sorted
list_snapshots 's1.*'
list_table_snapshots 't2'
list_table_snapshots 't.*', 's3'
list_table_snapshots 'nowhere'
clone_snapshot 's1', 'c1'
clone_snapshot 's2', 'c2', {RESTORE_ACL => true}
clone_snapshot 's1', 'c1'
clone_snapshot 'nowhere', 'c3'
clone_snapshot 's1', 'nowhere:c3'
describe 'c1'
scan 'c2', {COLUMNS => 'f1:q'}
restore_snapshot 's2'
put 't2', 'zz', 'f1:q', 'later', 2
disable 't2'
restore_snapshot 's2'
restore_snapshot 'nowhere'
enable 't2'
scan 't2', {COLUMNS => 'f1:q'}
disable 't1'
snapshot 't1', 's5'
enable 't1'
delete_snapshot 's5'
delete_snapshot 'nowhere'
delete_table_snapshots 't1', 's1'
delete_all_snapshot 's.*'
delete_all_snapshot 'nowhere'
list_snapshots.sort # sorted

# configuration
update_config server
update_config 'nowhere,1,1'
update_all_config

# locks
list_locks

# quotas, off
set_quota TYPE => THROTTLE, USER => 'u1', LIMIT => '10req/sec'
set_quota TYPE => SPACE, TABLE => 't1', LIMIT => '1G', POLICY => NO_INSERTS
list_quotas
list_quota_table_sizes
list_quota_snapshots
list_snapshot_sizes
enable_rpc_throttle
disable_rpc_throttle
enable_exceed_throttle_quota
disable_exceed_throttle_quota

# security, off
list_security_capabilities
grant 'bobsmith', 'RWXCA', 't1'
revoke 'bobsmith', 't1'
user_permission
user_permission 't1'

# visibility labels, off
add_labels ['SECRET', 'PRIVATE']
list_labels
set_auths 'user1', ['SECRET']
get_auths 'user1'
clear_auths 'user1', ['SECRET']
set_visibility 't2', 'A|B', {COLUMNS => 'f1'}

# rsgroup, off
list_rsgroups
get_rsgroup 'default'
add_rsgroup 'g1'
remove_rsgroup 'g1'
balance_rsgroup 'default'
move_servers_rsgroup 'g1', ['localhost:1']
move_tables_rsgroup 'g1', ['t1']
move_namespaces_rsgroup 'g1', ['ns2']
move_servers_tables_rsgroup 'g1', ['localhost:1'], ['t1']
move_servers_namespaces_rsgroup 'g1', ['localhost:1'], ['ns2']
get_server_rsgroup 'localhost:1'
get_table_rsgroup 't1'
remove_servers_rsgroup ['localhost:1']
rename_rsgroup 'g1', 'g2'
alter_rsgroup_config 'g1', {METHOD => 'set', 'a' => 'b'}
show_rsgroup_config 'default'
get_namespace_rsgroup 'ns2'

# replication, without a peer
list_peers
enable_peer '1'
disable_peer '1'
remove_peer '1'
get_peer_config '1'
list_peer_configs
update_peer_config '1', CONFIG => {'a' => 'b'}
set_peer_replicate_all '1', true
set_peer_serial '1', true
set_peer_namespaces '1', ['ns2']
append_peer_namespaces '1', ['ns2']
remove_peer_namespaces '1', ['ns2']
set_peer_exclude_namespaces '1', ['ns2']
append_peer_exclude_namespaces '1', ['ns2']
remove_peer_exclude_namespaces '1', ['ns2']
show_peer_tableCFs '1'
set_peer_tableCFs '1', {'t1' => []}
set_peer_exclude_tableCFs '1', {'t1' => []}
append_peer_exclude_tableCFs '1', {'t1' => []}
remove_peer_exclude_tableCFs '1', {'t1' => []}
set_peer_bandwidth '1', 1
append_peer_tableCFs '1', {'t1' => []}
remove_peer_tableCFs '1', {'t1' => []}
list_replicated_tables
enable_table_replication 'nowhere'
disable_table_replication 'nowhere'

# store file trackers
create 'sft1', 'f', 'g'
create 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'FILE'}}, {NAME => 'g'}
create 'sft3', 'f', CONFIGURATION => {tracker => 'file'}
create 'sft4', 'f', CONFIGURATION => {tracker => 'org.apache.hadoop.hbase.regionserver.storefiletracker.FileBasedStoreFileTracker'}
create 'sft9', 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'FILE', target => 'DEFAULT'}
create 'sft9', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION'}}
create 'sft9', 'f', CONFIGURATION => {tracker => 'no.such.Tracker'}
create 'sft9', {NAME => 'f', CONFIGURATION => {tracker => 'no.such.Tracker'}}
create 'sft9', 'f', CONFIGURATION => {tracker => 'TABLE'}
describe 'sft1'
describe 'sft2'
describe 'sft3'
describe 'sft4'
put 'sft1', 'r', 'f:q', 'v'
flush 'sft1'
change_sft 'sft1', 'DEFAULT'
change_sft 'sft1', 'FILE'
describe 'sft1'
get 'sft1', 'r'
change_sft 'sft1', 'file'
change_sft 'sft1', 'MIGRATION'
change_sft 'sft1', 'no.such.Tracker'
change_sft 'sft1', 'TABLE'
change_sft 'sft1', ''
change_sft 'sft1', 'f', 'FILE'
change_sft 'sft1', 'x', 'FILE'
change_sft 'sft1', 'f', 'MIGRATION'
change_sft 'sft1', 'f', 'no.such.Tracker'
change_sft 'nowhere', 'FILE'
change_sft 'nowhere', 'f', 'FILE'
change_sft 'sft1'
change_sft 'sft2', 'g', 'FILE'
change_sft 'sft2', 'g', 'org.apache.hadoop.hbase.regionserver.storefiletracker.FileBasedStoreFileTracker'
describe 'sft2'
change_sft 'sft3', 'DEFAULT'
change_sft 'sft3', 'f', 'DEFAULT'
describe 'sft3'
alter 'sft2', CONFIGURATION => {tracker => 'FILE'}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'DEFAULT'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'no.such.Tracker'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'DEFAULT', target => 'FILE'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'FILE', target => 'FILE'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'FILE'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', target => 'FILE'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'FILE', target => 'no.such.Tracker'}}
alter 'sft2', {NAME => 'h', CONFIGURATION => {tracker => 'MIGRATION', source => 'FILE', target => 'DEFAULT'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'FILE', target => 'DEFAULT'}}
describe 'sft2'
put 'sft2', 'r', 'f:q', 'v'
flush 'sft2'
get 'sft2', 'r'
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'DEFAULT', target => 'FILE'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'MIGRATION', source => 'FILE', target => 'FILE'}}
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'FILE'}}
disable 'sft2'
alter 'sft2', {NAME => 'f', CONFIGURATION => {tracker => 'DEFAULT'}}
change_sft 'sft2', 'f', 'DEFAULT'
change_sft 'sft2', 'FILE'
enable 'sft2'
change_sft 'sft2', 'f', 'DEFAULT'
describe 'sft2'
get 'sft2', 'r'
snapshot 'sft2', 'sft'
change_sft 'sft2', 'f', 'FILE'
disable 'sft2'
restore_snapshot 'sft'
enable 'sft2'
clone_snapshot 'sft', 'sft5'
describe 'sft5'
java.cloneSnapshot('sft', org.apache.hadoop.hbase.TableName.valueOf('sft6'), false, 'FILE')
describe 'sft6'
get 'sft6', 'r'
change_sft_all 'sft[45]', 'FILE'
change_sft_all 'sft[45]', 'MIGRATION'
change_sft_all 'nowhere.*', 'FILE'
change_sft_all 'sft4'
describe 'sft5'
change_sft 'hbase:meta', 'DEFAULT'
delete_snapshot 'sft'
disable_all 'sft.*'
drop_all 'sft.*'

# the rest of ddl, and the end of the servers
disable_all 'c.*'
enable_all 'c.*'
disable_all 'c.*'
drop_all 'c.*'
disable_all 'nowhere.*'
enable_all 'nowhere.*'
drop_all 'nowhere.*'
list
stop_regionserver 'nowhere:1'
stop_master
