<?php
// Says in a field of the answer that WordPress searches, or lists users.
function says_work( $work ) {
	headers_sent() || header( 'X-Work: ' . $work );
}
add_action( 'pre_get_posts', function ( $query ) {
	$query->get( 's' ) && says_work( 'search' );
} );
foreach ( array( 'pre_get_terms', 'pre_get_comments' ) as $event ) {
	add_action( $event, function ( $query ) {
		empty( $query->query_vars['search'] ) || says_work( 'search' );
	} );
}
add_action( 'pre_get_users', function () {
	says_work( 'users' );
} );
