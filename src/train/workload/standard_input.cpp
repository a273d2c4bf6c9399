#include "train/workload/standard_input.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/run_directory.h"
#include "core/atomic_file.h"
#include "data/files/sniffed_format.h"
#include "train/checkpoint/run_links.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* reading_input = "data.train = \"-\" (standard input)";
constexpr std::array<const char*, 2> kept_input_names{"standard-input.jsonl", "standard-input.txt"};
constexpr std::size_t input_block_bytes = data::most_sniffed_bytes;

Error unreadable_input(const std::string& received) {
  return usage_error(reading_input, "text, or a JSON object per line", received,
                     "accrue train CONFIG <FILE, or PROGRAM | accrue train CONFIG");
}

void expect_one_reader(const Config& config, std::int64_t ranks) {
  const std::vector<std::string>& train = config.data.train;
  const std::vector<std::string>& val = config.data.val;
  if (std::find(val.begin(), val.end(), kStandardInput) != val.end())
    throw usage_error("data.val", "files", "\"-\", standard input, which data.train alone can name",
                      "val_fraction, which holds a part of it out");
  if (std::count(train.begin(), train.end(), kStandardInput) > 1)
    throw usage_error(reading_input, "it once, as it can be read once", "more than once",
                      "leaving out the others");
  if (ranks > 1)
    throw usage_error(reading_input, "one process", std::to_string(ranks) + " ranks",
                      "a file that all of them read");
  const auto format = config.data.format;
  if (format && *format != data::Format::text && *format != data::Format::jsonl &&
      *format != data::Format::chat)
    throw usage_error(reading_input, "data.format = \"text\", \"jsonl\", \"chat\" or \"auto\"",
                      "\"" + std::string(to_string(*format)) + "\"", "a file");
}

std::optional<fs::path> kept_input(const fs::path& folder) {
  std::error_code error;
  for (const char* name : kept_input_names)
    if (fs::is_regular_file(folder / name, error)) return folder / name;
  return std::nullopt;
}

/// The next bytes, as many as are available up to a block; empty at the end.
std::string_view read_input_block(std::vector<char>& buffer) {
  buffer.resize(input_block_bytes);
  std::size_t known = 0;
  while (known < buffer.size()) {
    const ssize_t more = ::read(STDIN_FILENO, buffer.data() + known, buffer.size() - known);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) throw unreadable_input(std::generic_category().message(errno));
    if (more == 0) break;
    known += static_cast<std::size_t>(more);
  }
  return {buffer.data(), known};
}

/// By its first bytes, as for files without a name that marks them as JSON lines.
bool is_text_input(const Config& config, std::string_view first_block) {
  if (config.data.format) return *config.data.format == data::Format::text;
  switch (data::sniff_format(first_block, first_block.size() < input_block_bytes)) {
    case data::SniffedFormat::json_lines:
      return false;
    case data::SniffedFormat::json_document:
      throw unreadable_input("JSON that is no object per line; state data.format");
    case data::SniffedFormat::unclear:
      throw unreadable_input(
          "a first line of more than 1 MiB that may be either; state data.format");
    default:
      return true;
  }
}

fs::path keep_input(const Config& config) {
  if (::isatty(STDIN_FILENO) != 0) throw unreadable_input("a terminal");
  std::vector<char> buffer;
  std::string_view block = read_input_block(buffer);
  if (block.empty()) throw unreadable_input("nothing: it is empty");
  const fs::path folder = input_folder_of(config);
  std::error_code error;
  if (fs::is_symlink(folder, error))
    throw foreign_entry_error(folder, "a link to " + fs::read_symlink(folder, error).string());
  const bool text = is_text_input(config, block);
  fs::create_directories(folder, error);  // if it fails, writing the file reports why
  AtomicFile file(folder / kept_input_names[text ? 1 : 0]);
  for (; !block.empty(); block = read_input_block(buffer)) file.write(block);
  file.commit();
  fs::remove(folder / kept_input_names[text ? 0 : 1], error);
  return folder / kept_input_names[text ? 1 : 0];
}

}  // namespace

bool reads_standard_input(const Config& config) {
  const auto names_it = [](const std::vector<std::string>& patterns) {
    return std::find(patterns.begin(), patterns.end(), kStandardInput) != patterns.end();
  };
  return names_it(config.data.train) || names_it(config.data.val);
}

fs::path input_folder_of(const Config& config) {
  const fs::path out = fs::path(config.run.out).lexically_normal();
  const fs::path run = out.has_filename() ? out : out.parent_path();
  return run.parent_path() / ".accrue-input" / run.filename();
}

Config with_standard_input(Config config, std::int64_t ranks) {
  if (!reads_standard_input(config)) return config;
  expect_one_reader(config, ranks);
  if (config.run.out.empty())
    throw usage_error(reading_input, "run.out, beside which it is kept", "none",
                      "out = \"runs/first\" in [run]");
  std::optional<fs::path> kept;
  if (RunDirectory(config.run.out).holds_run()) kept = kept_input(input_folder_of(config));
  if (!kept) kept = keep_input(config);
  std::replace(config.data.train.begin(), config.data.train.end(), std::string(kStandardInput),
               kept->string());
  return config;
}

}  // namespace accrue::train
