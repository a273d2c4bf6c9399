#include "accrue/data/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "accrue/core/error.h"
#include "data/files/file_pool.h"
#include "data/folder.h"

namespace accrue::data {
namespace {

using testing::counting_ids;
using testing::fetch;
using testing::Folder;
using testing::header;
using testing::open;
using testing::packed;
using testing::values;

// The naive reader: everything in memory, sample by sample, as the contract defines it.
::testing::AssertionResult matches(const Source& source, const std::vector<std::int64_t>& stream,
                                   std::int64_t context) {
  const auto samples = (std::ssize(stream) - 1) / context;
  if (source.size() != samples)
    return ::testing::AssertionFailure() << source.size() << " samples, expected " << samples;
  for (std::int64_t i = 0; i < samples; ++i) {
    const batch::MicroBatch micro = fetch(source, {i});
    const auto begin = stream.begin() + i * context;
    if (values(micro.inputs) != std::vector(begin, begin + context))
      return ::testing::AssertionFailure() << "inputs of sample " << i << " differ";
    if (values(micro.targets) != std::vector(begin + 1, begin + context + 1))
      return ::testing::AssertionFailure() << "targets of sample " << i << " differ";
  }
  return ::testing::AssertionSuccess();
}

TEST(TextSource, MatchesTheNaiveReaderAtEveryLength) {
  const Folder folder;
  for (std::int64_t length = 5; length <= 14; ++length) {
    const auto stream = counting_ids(length, 256);
    const auto file = folder.write("a.txt", packed<std::uint8_t>(stream));
    const auto source = open(file, 4, Format::text);
    EXPECT_TRUE(matches(*source, stream, 4)) << length;
    EXPECT_EQ(source->vocab(), 256);
  }
}

TEST(TextSource, ComparatorRefusesAStreamThatIsShiftedOrShort) {
  const Folder folder;
  auto stream = counting_ids(13, 256);
  const auto source = open(folder.write("a.txt", packed<std::uint8_t>(stream)), 4, Format::text);
  std::rotate(stream.begin(), stream.begin() + 1, stream.end());
  EXPECT_FALSE(matches(*source, stream, 4));
  stream.resize(12);
  EXPECT_FALSE(matches(*source, stream, 4));
}

TEST(TextSource, JoinsFilesInSortedOrderWithNothingBetween) {
  const Folder folder;
  // Samples cross two and three files; an empty one in between has no effect.
  folder.write("c.txt", "ghijklm");
  folder.write("a.txt", "abc");
  folder.write("b/1.txt", "d");
  folder.write("b/0.txt", "");
  folder.write("b/2.txt", "ef");
  const auto source = open(folder.path("**/*.txt"), 3);
  EXPECT_TRUE(matches(*source, text_to_bytes("abcdefghijklm"), 3));
}

TEST(TextSource, GivesRowsInTheOrderAskedFor) {
  const Folder folder;
  const auto source = open(folder.write("a.txt", "abcdefghij"), 3);
  const batch::MicroBatch micro = fetch(*source, {2, 0, 2});
  EXPECT_EQ(micro.inputs.sizes(), (at::IntArrayRef{3, 3}));
  EXPECT_EQ(bytes_to_text(values(micro.inputs)), "ghiabcghi");
  EXPECT_EQ(bytes_to_text(values(micro.targets)), "hijbcdhij");
  EXPECT_EQ(micro.tokens, 9);
  EXPECT_EQ(micro.inputs.scalar_type(), at::kLong);
  EXPECT_EQ(fetch(*source, {}).inputs.sizes(), (at::IntArrayRef{0, 3}));
}

TEST(TextSource, RefusesIndicesOutside) {
  const Folder folder;
  const auto source = open(folder.write("a.txt", "abcdefghij"), 3);
  EXPECT_THROW(fetch(*source, {3}), Error);
  EXPECT_THROW(fetch(*source, {-1}), Error);
}

TEST(TextSource, MakesTheRoundTripOfAnyBytes) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  const std::string text = "\xff\xfe caf\xc3\xa9 \xc3" + every_byte + std::string(3, '\0');
  EXPECT_EQ(bytes_to_text(text_to_bytes(text)), text);
  const Folder folder;
  const auto micro =
      fetch(*open(folder.write("a.txt", text + "!"), std::ssize(text), Format::text), {0});
  EXPECT_EQ(bytes_to_text(values(micro.inputs)), text);
  EXPECT_THROW(bytes_to_text(std::vector<std::int64_t>{65, 256}), Error);
}

TEST(TokenSource, ReadsTheSameFromAllThreeFormats) {
  const Folder folder;
  const auto ids = counting_ids(101, 50'257);
  folder.write("nanogpt/a.bin", packed<std::uint16_t>(ids));
  folder.write("llmc/a.bin", header(20240520, 1, 101) + packed<std::uint16_t>(ids));
  folder.write("llama3/a.bin", header(20240801, 7, 101) + packed<std::uint32_t>(ids));
  for (const char* format : {"nanogpt", "llmc", "llama3"}) {
    const auto source = open(folder.path(format) + "/*.bin", 8);
    EXPECT_TRUE(matches(*source, ids, 8)) << format;
    EXPECT_EQ(source->vocab(), 0);
  }
}

TEST(TokenSource, ReadsIdsAboveSixteenBits) {
  const Folder folder;
  const std::vector<std::int64_t> ids{128'000, 65'536, 4'294'967'295, 1, 0};
  folder.write("a.bin", header(20240801, 7, 5) + packed<std::uint32_t>(ids));
  EXPECT_TRUE(matches(*open(folder.path("a.bin"), 2), ids, 2));
}

TEST(TokenSource, JoinsFilesOfBothFormats) {
  const Folder folder;
  const auto ids = counting_ids(40, 50'257);
  const std::vector<std::int64_t> first(ids.begin(), ids.begin() + 17);
  const std::vector<std::int64_t> second(ids.begin() + 17, ids.end());
  folder.write("a.bin", header(20240520, 1, 17) + packed<std::uint16_t>(first));
  folder.write("b.bin", packed<std::uint16_t>(second));
  EXPECT_TRUE(matches(*open(folder.path("*.bin"), 5), ids, 5));
}

TEST(TokenSource, TakesAnyNameWhereTheFormatIsStated) {
  const Folder folder;
  const auto ids = counting_ids(40, 50'257);
  const auto file = folder.write("tokens.u16", packed<std::uint16_t>(ids));
  EXPECT_TRUE(matches(*open(file, 5, Format::tokens), ids, 5));
  EXPECT_EQ(open(file, 5, Format::text)->size(), 15);
}

TEST(Source, KeepsFewFilesOpen) {
  const Folder folder;
  constexpr int files = 3 * static_cast<int>(FilePool::max_open_files);
  for (int i = 0; i < files; ++i) folder.write(std::to_string(1000 + i), "0123456789");
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_descriptors();
  const auto source = open(folder.path("*"), 9, Format::text);
  for (std::int64_t i = 0; i < source->size(); ++i) fetch(*source, {i});
  EXPECT_LE(open_descriptors() - before, std::ptrdiff_t{FilePool::max_open_files});
  EXPECT_GT(open_descriptors() - before, 0);
}

TEST(Source, IsSafeToReadFromSeveralThreads) {
  const Folder folder;
  std::string all;
  for (int i = 0; i < 200; ++i) {
    const std::string content(static_cast<std::size_t>(1 + i % 7), static_cast<char>(i));
    folder.write(std::to_string(1000 + i), content);
    all += content;
  }
  const auto source = open(folder.path("*"), 5, Format::text);
  const auto stream = text_to_bytes(all);
  std::vector<std::thread> threads;
  std::array<bool, 4> agree{};
  for (bool& mine : agree)
    threads.emplace_back([&] { mine = static_cast<bool>(matches(*source, stream, 5)); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(agree, ::testing::Each(true));
}

TEST(Slice, IsAViewWithItsOwnIndices) {
  const Folder folder;
  const std::shared_ptr<const Source> source = open(folder.write("a.txt", "abcdefghijklm"), 3);
  ASSERT_EQ(source->size(), 4);
  const auto held_out = slice(source, 3, 4);
  EXPECT_EQ(held_out->size(), 1);
  EXPECT_EQ(held_out->vocab(), 256);
  EXPECT_EQ(bytes_to_text(values(fetch(*held_out, {0}).inputs)), "jkl");
  EXPECT_NE(held_out->fingerprint(), source->fingerprint());
  EXPECT_NE(held_out->fingerprint(), slice(source, 0, 3)->fingerprint());
  EXPECT_EQ(slice(source, 4, 4)->size(), 0);
  EXPECT_THROW(fetch(*held_out, {1}), Error);
  EXPECT_THROW(fetch(*held_out, {-1}), Error);
}

TEST(Slice, RefusesWhatIsNoPart) {
  const Folder folder;
  const std::shared_ptr<const Source> source = open(folder.write("a.txt", "abcdefghijklm"), 3);
  EXPECT_THROW(slice(source, 0, 5), Error);
  EXPECT_THROW(slice(source, -1, 2), Error);
  EXPECT_THROW(slice(source, 3, 2), Error);
}

TEST(Fingerprint, ChangesWithNamesSizesOrderAndContentAndNothingElse) {
  const Folder folder;
  folder.write("first/a.txt", "0123456789");
  folder.write("first/b.txt", "abcdefghij");
  const auto print = [&](const char* name) {
    return open(folder.path(name) + "/*", 4)->fingerprint();
  };
  const std::string original = print("first");
  EXPECT_EQ(print("first"), original);

  folder.write("moved/a.txt", "0123456789");
  folder.write("moved/b.txt", "abcdefghij");
  EXPECT_EQ(print("moved"), original);

  folder.write("edited/a.txt", "0123456789");
  folder.write("edited/b.txt", "abcdefgXij");
  EXPECT_NE(print("edited"), original);

  folder.write("renamed/a.txt", "0123456789");
  folder.write("renamed/c.txt", "abcdefghij");
  EXPECT_NE(print("renamed"), original);

  folder.write("swapped/a.txt", "abcdefghij");
  folder.write("swapped/b.txt", "0123456789");
  EXPECT_NE(print("swapped"), original);

  folder.write("split/a.txt", "0123456789a");
  folder.write("split/b.txt", "bcdefghij");
  EXPECT_NE(print("split"), original);
}

TEST(Fingerprint, IsTheSameOnEveryMachine) {
  const Folder folder;
  EXPECT_EQ(open(folder.write("a.txt", "0123456789"), 4)->fingerprint(),
            "text: 1 files, 10 bytes, hash ebcfa822d019168d");
}

TEST(Files, AreThoseThatTheFingerprintIsMadeOf) {
  const Folder folder;
  folder.write("a.txt", "0123456789");
  folder.write("b.txt", "abcdefghij");
  const auto files = [&] { return open(folder.path("*.txt"), 4)->files(); };
  const std::vector<DataFile> before = files();
  ASSERT_EQ(before.size(), 2U);
  EXPECT_EQ(before[0].path.filename(), "a.txt");
  EXPECT_EQ(before[0].bytes, 10);
  EXPECT_EQ(before[0].files, 1);
  EXPECT_EQ(before[0].fingerprint.size(), 16U);
  EXPECT_EQ(files(), before);
  folder.write("b.txt", "abcdefgXij");
  const std::vector<DataFile> after = files();
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1].fingerprint, before[1].fingerprint);
  const std::shared_ptr<const Source> source = open(folder.path("*.txt"), 4);
  EXPECT_EQ(slice(source, 0, 1)->files(), after);
}

TEST(Files, AreToldByFolderWhereThereAreMany) {
  const Folder folder;
  for (int i = 0; i < 1001; ++i)
    folder.write((i % 2 == 0 ? "even/" : "odd/") + std::to_string(i) + ".txt", "0123456789");
  const auto files = [&] { return open(folder.path("*/*.txt"), 4)->files(); };
  const std::vector<DataFile> before = files();
  ASSERT_EQ(before.size(), 2U);
  EXPECT_EQ(before[0].path.filename(), "even");
  EXPECT_EQ(before[0].files, 501);
  EXPECT_EQ(before[0].bytes, 5010);
  EXPECT_EQ(before[1].files, 500);
  EXPECT_NE(before[0].fingerprint, before[1].fingerprint);
  folder.write("odd/7.txt", "0123456780");
  const std::vector<DataFile> after = files();
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1].fingerprint, before[1].fingerprint);
}

}  // namespace
}  // namespace accrue::data
