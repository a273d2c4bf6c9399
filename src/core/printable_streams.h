#pragma once

#include <iosfwd>
#include <mutex>
#include <streambuf>
#include <string>
#include <string_view>

namespace accrue {

/// Wraps a stream's buffer, so that everything written to the stream is printable(),
/// wherever its text came from. Unescaped text passes. Several threads may write, as to
/// std::cerr.
class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf& out) : out_(out) {}
  ~PrintableBuffer() override { let_go(); }
  /// Returns whether everything was written.
  bool pass(std::string_view bytes);

 protected:
  int_type overflow(int_type byte) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int sync() override;

 private:
  bool let_go();
  bool put(std::string_view bytes);

  std::mutex mutex_;  ///< guards the others
  std::streambuf& out_;
  std::string begun_;  ///< an incomplete character
};

/// Text that is written unchanged, also through a PrintableBuffer: accrue's control sequences, and
/// results that a program reads. Never the text of a file for people.
struct Unescaped {
  std::string_view bytes;
};
std::ostream& operator<<(std::ostream& out, Unescaped unescaped);

/// Makes std::cout, std::cerr and std::clog write printable text during its lifetime.
class PrintableStreams {
 public:
  PrintableStreams();
  ~PrintableStreams();
  PrintableStreams(const PrintableStreams&) = delete;
  PrintableStreams& operator=(const PrintableStreams&) = delete;

 private:
  std::streambuf *out_before_, *error_before_, *log_before_;
  PrintableBuffer out_, error_, log_;
};

}  // namespace accrue
