#include "train/limits/limit_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>

#include "core/open_file.h"

namespace accrue::train {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

/// The beginning of a file; none if it cannot be read, with the reason in errno.
std::optional<std::string> beginning_of(const Descriptor& file) {
  std::array<char, 4096> bytes{};
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  return std::string(bytes.data(), size);
}

LimitReading trouble(std::string why) { return {.value = std::nullopt, .trouble = std::move(why)}; }

bool is_there(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

LimitReading read_number(const std::string& path) {
  const OpenedFile opened = open_to_read(path);
  if (!opened) return trouble(opened.error != 0 ? opened.obstacle : "it is no regular file");
  const std::optional<std::string> text = beginning_of(opened.file);
  if (!text) return trouble(std::strerror(errno));
  const std::optional<double> number = number_at_start(*text);
  return number ? LimitReading{.value = number, .trouble = {}}
                : trouble("it does not begin with a number");
}

}  // namespace

std::optional<double> number_at_start(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const bool ends =
      text.empty() || text.front() == '%' || kSpaces.find(text.front()) != std::string_view::npos;
  return ends ? std::optional(number) : std::nullopt;
}

LimitReading read_limit_file(const Limit& limit) {
  if (limit.above || limit.below) return read_number(limit.file);
  return {.value = is_there(limit.file) ? 1 : 0, .trouble = {}};
}

}  // namespace accrue::train
