#pragma once

namespace accrue::cli {

/// Call it before any file is opened: if the program was started with a standard stream closed, one
/// of its files would get that number, and results would be printed into it.
void occupy_standard_streams();

/// Writes out what was printed. Returns `status`; if that is 0 and not everything could be written
/// (a full disk) throws a runtime Error, with another status it only prints that on stderr. A
/// reader that is gone (a closed pipe) has what it wanted: that is not an error.
int finish_output(int status);

}  // namespace accrue::cli
