#include "core/printable_streams.h"

#include <iostream>
#include <utility>

#include "core/printable.h"
#include "core/utf8.h"

namespace accrue {
namespace {

/// The number of bytes at the end that begin an incomplete character.
std::size_t begun_at_end(std::string_view bytes) {
  constexpr std::size_t longest = 4;
  for (std::size_t size = 1; size < longest && size <= bytes.size(); ++size) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - size]);
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return size < utf8_length(static_cast<char>(byte)) ? size : 0;
  }
  return 0;
}

}  // namespace

bool PrintableBuffer::put(std::string_view bytes) {
  const auto size = static_cast<std::streamsize>(bytes.size());
  return out_.sputn(bytes.data(), size) == size;
}

bool PrintableBuffer::let_go() { return put(printable(std::exchange(begun_, {}))); }

bool PrintableBuffer::pass(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  return let_go() && put(bytes);
}

std::streamsize PrintableBuffer::xsputn(const char* bytes, std::streamsize count) {
  const std::lock_guard lock(mutex_);
  std::string text = begun_ + std::string(bytes, static_cast<std::size_t>(count));
  const std::size_t begun = begun_at_end(text);
  begun_ = text.substr(text.size() - begun);
  text.resize(text.size() - begun);
  return put(printable(text)) ? count : 0;
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type byte) {
  if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
  const char written = traits_type::to_char_type(byte);
  return xsputn(&written, 1) == 1 ? byte : traits_type::eof();
}

int PrintableBuffer::sync() {
  const std::lock_guard lock(mutex_);
  return out_.pubsync();
}

std::ostream& operator<<(std::ostream& out, Unescaped unescaped) {
  if (auto* const printed = dynamic_cast<PrintableBuffer*>(out.rdbuf())) {
    if (!printed->pass(unescaped.bytes)) out.setstate(std::ios::badbit);
    return out;
  }
  return out << unescaped.bytes;
}

PrintableStreams::PrintableStreams()
    : out_before_(std::cout.rdbuf()),
      error_before_(std::cerr.rdbuf()),
      log_before_(std::clog.rdbuf()),
      out_(*out_before_),
      error_(*error_before_),
      log_(*log_before_) {
  std::cout.rdbuf(&out_);
  std::cerr.rdbuf(&error_);
  std::clog.rdbuf(&log_);
}

PrintableStreams::~PrintableStreams() {
  std::cout.rdbuf(out_before_);
  std::cerr.rdbuf(error_before_);
  std::clog.rdbuf(log_before_);
}

}  // namespace accrue
