# Writes OUTPUT, a C++ source that holds web files as bytes:
#   cmake -DOUTPUT=... -DWEB=<folder> -DUPLOT=<folder> -DSCRIPTS=a.js|b.js -P web_assets.cmake
# Bytes, since compilers limit the length of a string literal.

function(bytes_of variable)
  set(all "")
  foreach(file IN LISTS ARGN)
    file(READ ${file} hex HEX)
    string(APPEND all ${hex})
  endforeach()
  string(REGEX REPLACE "(..)" "0x\\1," all "${all}")
  set(${variable} "${all}" PARENT_SCOPE)
endfunction()

set(source "// Made by web_assets.cmake.\n#include \"observe/report/web_assets.h\"\n\nnamespace accrue::observe::web {\nnamespace {\n")
set(views "")
function(add_asset name)
  bytes_of(bytes ${ARGN})
  string(APPEND source "constexpr unsigned char ${name}_bytes[] = {${bytes}};\n")
  string(APPEND views "const std::string_view ${name}(reinterpret_cast<const char*>(${name}_bytes), sizeof ${name}_bytes);\n")
  set(source "${source}" PARENT_SCOPE)
  set(views "${views}" PARENT_SCOPE)
endfunction()

string(REPLACE "|" ";" SCRIPTS "${SCRIPTS}")
list(TRANSFORM SCRIPTS PREPEND ${WEB}/)
add_asset(page_template ${WEB}/report.html)
add_asset(style ${WEB}/report.css)
add_asset(script ${SCRIPTS})
add_asset(uplot_style ${UPLOT}/uPlot.min.css)
add_asset(uplot_script ${UPLOT}/uPlot.iife.min.js)
file(WRITE ${OUTPUT} "${source}\n}  // namespace\n\n${views}\n}  // namespace accrue::observe::web\n")
