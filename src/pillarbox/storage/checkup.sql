-- name: server postgres
SELECT current_setting('server_version'),
       current_setting('server_version_num')::int,
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('synchronous_commit'),
       extract(epoch FROM clock_timestamp())::float8
