# How Doxygen reads headers: an example in a comment is indented by two spaces, of which Markdown wants four,
s,^( *///)   ,\1       ,
# and a pattern such as "train/*.png" begins no comment.
/^ *\/\/\//s,/\*,/\&#42;,g
