#pragma once

namespace accrue::cli {

/// To be called before any file is opened: if the program was started with a standard stream
/// closed, a file of its own would get that number, and results would be printed into it.
void occupy_standard_streams();

/// Writes out what was printed. Returns `status`, or where it is 0 and not all could be written (a
/// full disk) throws a runtime Error; with another status that is only said on stderr. A reader
/// that went away (a closed pipe) has what it wanted: that is no error.
int finish_output(int status);

}  // namespace accrue::cli
