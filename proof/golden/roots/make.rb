create_namespace 'ns1', {'k'=>'v'}
create 'enc', {NAME=>'a', DATA_BLOCK_ENCODING=>'NONE'}, {NAME=>'b', DATA_BLOCK_ENCODING=>'PREFIX', COMPRESSION=>'GZ', BLOOMFILTER=>'ROWCOL'}, {NAME=>'c', DATA_BLOCK_ENCODING=>'DIFF', COMPRESSION=>'SNAPPY', BLOOMFILTER=>'NONE'}, {NAME=>'d', DATA_BLOCK_ENCODING=>'FAST_DIFF', COMPRESSION=>'ZSTD'}, {NAME=>'e', DATA_BLOCK_ENCODING=>'ROW_INDEX_V1', COMPRESSION=>'LZ4'}, SPLITS=>['05','10','15']
create 'ns1:ft', {NAME=>'f', VERSIONS=>3}, CONFIGURATION=>{'hbase.store.file-tracker.impl'=>'FILE'}
create 'off', 'f'
create 'cop', 'f', METADATA=>{'coprocessor$1'=>'|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint||'}
20.times{|i| r='%02d' % i; %w[a b c d e].each{|f| put 'enc', r, f+':q', 'v'*50+r; put 'enc', r, f+':z', 'w'}}
10.times{|i| put 'ns1:ft', "r#{i}", 'f:q', "one#{i}"}
flush 'ns1:ft'
10.times{|i| put 'ns1:ft', "r#{i}", 'f:q', "two#{i}"}
10.times{|i| put 'off', "r#{i}", 'f:q', "x#{i}"}
10.times{|i| put 'cop', "r#{i}", 'f:q', 'm'*(i*40)}
flush 'enc'
flush 'off'
snapshot 'enc','snap1'
clone_snapshot 'snap1','ns1:clone'
disable 'off'
compaction_switch false
split 'cop', 'r5'
split 'ns1:clone', '07'
sleep 5
put 'enc','99','a:late','x'
delete 'ns1:ft','r3','f:q'
deleteall 'ns1:ft','r4'
