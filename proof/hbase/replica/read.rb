# The commands of HBase's shell that a read replica answers as its primary does, for `cargo xtask test --only replica-tools`.
# The marks after a command are those of proof/hbase/shell/commands.rb.
version
list
list 'ns:.*'
list_namespace # sorted
list_namespace_tables 'ns'
describe_namespace 'ns'
exists 't'
exists 'nowhere'
is_enabled 't'
is_disabled 'ns:other'
describe 't'
describe 'ns:other'
describe 'nowhere'
get_splits 't'
status # numbers
status 'summary' # numbers
get 't', 'a', {COLUMN => 'f:q', VERSIONS => 3}
get 't', 'b'
get 't', 'c'
get 't', 'a', 'nowhere:q'
get 'nowhere', 'a'
get 'ns:other', 'x'
get_counter 't', 'a', 'f:count'
scan 't', {COLUMNS => ['f:q', 'g']}
scan 't', {REVERSED => true, LIMIT => 1}
scan 't', {STARTROW => 'b', STOPROW => 'z'}
scan 't', {FILTER => "ValueFilter(=, 'substring:flush')"}
scan 't', {RAW => true, VERSIONS => 5, COLUMNS => ['f:q', 'g']}
scan 'nowhere'
count 't'
count 't', FILTER => "PrefixFilter('a')"
