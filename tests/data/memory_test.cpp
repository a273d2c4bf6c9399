#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <functional>
#include <system_error>

#include "folder.h"
#include "support/sanitizers.h"
#include "support/skip.h"

namespace accrue::data {
namespace {

using testing::fetch;
using testing::Folder;
using testing::mebibyte;
using testing::open;

constexpr std::int64_t ten_gigabytes = 10'000'000'000;
constexpr std::int64_t stream_context = 1024;

std::int64_t resident_maximum_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// By how much `work` raises the maximum resident memory. In a child, whose maximum starts with its
// present memory: in this process an earlier test may have gone higher, and would hide the growth.
// `warm_up` pages code in.
std::int64_t growth_bytes(const std::function<void()>& warm_up, const std::function<void()>& work) {
  std::array<int, 2> channel{};
  EXPECT_EQ(::pipe(channel.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    at::set_num_threads(1);  // the threads that earlier tests started are not in the child
    warm_up();
    const std::int64_t before = resident_maximum_bytes();
    work();
    const std::int64_t growth = resident_maximum_bytes() - before;
    const bool is_sent = ::write(channel[1], &growth, sizeof growth) == sizeof growth;
    ::_exit(is_sent ? 0 : 1);
  }
  ::close(channel[1]);
  std::int64_t growth = -1;
  EXPECT_EQ(::read(channel[0], &growth, sizeof growth), ssize_t{sizeof growth});
  ::close(channel[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return growth;
}

// Both read 48 ranges of 2 MiB from all over the file: 96 MiB, more than may stay resident.
// Ranges, because the kernel reads ahead at every jump.
constexpr std::int64_t ranges = 48;
constexpr std::int64_t stretch_bytes = 2 * mebibyte;

void read_throughout(const std::string& file) {
  const auto source = open(file, stream_context);
  const std::int64_t length = std::min(source->size(), stretch_bytes / (2 * stream_context));
  const std::int64_t stride = (source->size() - length) / ranges;
  for (std::int64_t range = 0; range < ranges; ++range) {
    for (std::int64_t i = 0; i < length; ++i) fetch(*source, {range * stride + i});
  }
  (void)source->fingerprint();
}

// The negative control: the same pages through a map stay resident.
void read_throughout_with_a_map(const std::string& file) {
  FILE* handle = std::fopen(file.c_str(), "rb");
  void* map = ::mmap(nullptr, static_cast<std::size_t>(ten_gigabytes), PROT_READ, MAP_PRIVATE,
                     ::fileno(handle), 0);
  const auto* bytes = static_cast<const volatile char*>(map);
  char sum = 0;
  for (std::int64_t range = 0; range < ranges; ++range) {
    const std::int64_t begin = range * (ten_gigabytes / ranges);
    for (std::int64_t i = 0; i < stretch_bytes; i += 4096)
      sum = static_cast<char>(sum + bytes[begin + i]);
  }
  std::fclose(handle);
}

TEST(ResidentMemory, DoesNotGrowWithTheFile) {
  if (accrue::testing::with_address_sanitizer)
    return accrue::testing::not_possible_here(
        "the address sanitizer keeps freed memory resident, up to 256 MiB");
  const Folder folder;
  const std::string large = folder.write("large.bin", "");
  std::error_code failure;
  std::filesystem::resize_file(large, ten_gigabytes, failure);
  if (failure)
    return accrue::testing::not_possible_here("no sparse file of 10 GB: " + failure.message());
  const std::string small = folder.write("small.bin", std::string(64 * stream_context, '\1'));
  const auto warm_up = [&] { read_throughout(small); };

  EXPECT_LT(growth_bytes(warm_up, [&] { read_throughout(large); }), 64 * mebibyte);
  EXPECT_GT(growth_bytes(warm_up, [&] { read_throughout_with_a_map(large); }), 64 * mebibyte);
}

constexpr std::int64_t long_line_bytes = 1 << 16;

std::string jsonl_of(std::int64_t lines) {
  const std::string line =
      R"({"text": ")" + std::string(static_cast<std::size_t>(long_line_bytes), 'x') + "\"}\n";
  std::string content;
  for (std::int64_t i = 0; i < lines; ++i) content += line;
  return content;
}

void read_all_samples(const std::string& file) {
  const auto source = open(file, long_line_bytes, Format::jsonl);
  for (std::int64_t i = 0; i < source->size(); i += 7) fetch(*source, {i});
}

TEST(ResidentMemory, OfJsonLinesIsOfTheirNumberNotTheirSize) {
  if (accrue::testing::with_address_sanitizer)
    return accrue::testing::not_possible_here(
        "the address sanitizer keeps freed memory resident, up to 256 MiB");
  const Folder folder;
  const std::string large = folder.write("large.jsonl", jsonl_of(96 * mebibyte / long_line_bytes));
  const std::string small = folder.write("small.jsonl", jsonl_of(4));
  const auto warm_up = [&] { read_all_samples(small); };

  EXPECT_LT(growth_bytes(warm_up, [&] { read_all_samples(large); }), 32 * mebibyte);
  // The negative control: the lines themselves.
  EXPECT_GT(growth_bytes(warm_up,
                         [&] {
                           std::string all(96 * mebibyte, '\0');
                           std::ifstream(large, std::ios::binary).read(all.data(), std::ssize(all));
                         }),
            32 * mebibyte);
}

TEST(ResidentMemory, DoesNotHoldWhatStandsBetweenJsonLines) {
  if (accrue::testing::with_address_sanitizer)
    return accrue::testing::not_possible_here(
        "the address sanitizer keeps freed memory resident, up to 256 MiB");
  const Folder folder;
  const std::string sample = "{\"text\": \"abcdef\"}\n";
  const std::string gap(64 * mebibyte, '\n');
  const std::string large = folder.write("large.jsonl", sample + gap + sample + gap);
  const std::string small = folder.write("small.jsonl", sample + "\n\n" + sample);
  const auto read_both = [](const std::string& file) {
    const auto source = open(file, 8, Format::jsonl);
    EXPECT_EQ(source->size(), 2);
    EXPECT_EQ(fetch(*source, {0, 1}).tokens, 10);
  };
  const auto warm_up = [&] { read_both(small); };
  EXPECT_LT(growth_bytes(warm_up, [&] { read_both(large); }), 16 * mebibyte);
}

}  // namespace
}  // namespace accrue::data
