// Files derived from text: damaged ones are made again, with a remark.
#include "data/text/tokens/text_cache.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "core/atomic_file.h"
#include "data/folder.h"
#include "data/planted_tokenizers.h"

namespace accrue::data {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Bytes that are not `bytes`: a bit flipped in each of them, cut at each length, and more.
std::vector<std::string> damages_of(const std::string& bytes) {
  std::vector<std::string> damages;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    damages.push_back(bytes);
    damages.back()[at] = static_cast<char>(damages.back()[at] ^ 1 << at % 8);
    damages.push_back(bytes.substr(0, at));
  }
  damages.push_back(bytes + '\0');
  damages.push_back(bytes + bytes);
  return damages;
}

TEST(TextCacheFiles, AreMadeAgainWhereTheyAreDamaged) {
  const Folder folder;
  int made = 0;
  const auto file = [&](TextCache& cache) {
    return cache.file("a.tokens", [&](const WriteBytes& write) {
      ++made;
      write("some ");
      write("tokens");
    });
  };
  TextCache fresh(folder.path("kept"));
  const std::filesystem::path path = file(fresh).path;
  EXPECT_THAT(fresh.remarks(), IsEmpty());
  const std::string whole = read_file(path);
  int expected = 1;
  EXPECT_EQ(made, expected);
  for (const std::string& damage : damages_of(whole)) {
    write_file_atomically(path, damage);
    TextCache cache(folder.path("kept"));
    EXPECT_EQ(content_of(file(cache)), "some tokens");
    EXPECT_EQ(made, ++expected);
    EXPECT_EQ(read_file(path), whole);
    EXPECT_THAT(cache.remarks(),
                ElementsAre(AllOf(HasSubstr(path.string()), HasSubstr("it is made again"))));
    TextCache next(folder.path("kept"));
    file(next);
    EXPECT_EQ(made, expected) << "once";
    EXPECT_THAT(next.remarks(), IsEmpty());
  }
}

TEST(TextCacheFiles, ManyThatAreDamagedAreOneRemark) {
  const Folder folder;
  for (const char* name : {"a", "b", "c"}) folder.write(std::string("kept/") + name, "old");
  TextCache cache(folder.path("kept"));
  for (const char* name : {"a", "b", "c"})
    cache.file(name, [](const WriteBytes& write) { write("new"); });
  EXPECT_THAT(cache.remarks(), ElementsAre(AllOf(HasSubstr("3 files"), HasSubstr("kept/a is"))));
}

TEST(TextCacheFiles, StayAsTheyAreWhereMakingThemAgainFails) {
  const Folder folder;
  folder.write("kept/a", "old");
  TextCache cache(folder.path("kept"));
  EXPECT_THROW(cache.file("a", [](const WriteBytes&) { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(read_file(folder.path("kept/a")), "old");
}

TEST(TextCacheFiles, ThatAreDamagedAreMadeOnceWhereSeveralWantThem) {
  const Folder folder;
  folder.write("kept/a", "old");
  std::atomic<int> made = 0;
  std::vector<std::string> found(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& content : found)
      threads.emplace_back([&] {
        TextCache cache(folder.path("kept"));
        content = content_of(cache.file("a", [&](const WriteBytes& write) {
          ++made;
          write("new");
        }));
      });
  }
  EXPECT_THAT(found, ::testing::Each("new"));
  EXPECT_EQ(made, 1);
}

TEST(TextCacheFiles, ThatAreWholeAreNotReplaced) {
  const Folder folder;
  const auto file = [&](const std::string& name) {
    TextCache cache(folder.path("kept"));
    return cache.file(name, [](const WriteBytes& write) { write("tokens"); });
  };
  const FilePool reader(std::vector{file("a")}, "t");
  file("a");
  std::vector<std::byte> bytes(6);
  EXPECT_EQ(reader.bytes(0), 6);
  reader.read(0, 0, bytes);  // throws if the file was changed
}

class DamagedText : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_.write("a.txt", "abab ab\ned a ba ab\nab ab ab ed\n");
    folder_.write("a.jsonl", "{\"text\": \"ab ab\"}\n{\"text\": \"ed a ab\"}\n");
    const std::string file = folder_.write("t/tokenizer.json", planted_gpt2().dump());
    options_ = {.globs = {folder_.path(GetParam())},
                .tokenizer = [tokenizer = Tokenizer::open(file, "t")] { return tokenizer; },
                .cache = folder_.path("kept"),
                .context = 4};
  }

  /// All inputs and targets, in order.
  static std::vector<std::int64_t> samples_of(const Source& source) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < source.size(); ++i) {
      const batch::MicroBatch sample = source.fetch(std::span(&i, 1));
      for (const at::Tensor& tensor : {sample.inputs, sample.targets}) {
        const std::vector<std::int64_t> ids = values(tensor);
        all.insert(all.end(), ids.begin(), ids.end());
      }
    }
    return all;
  }
  std::filesystem::path kept() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("kept")))
      if (entry.path().filename() != ".lock") return entry.path();
    return {};
  }

  Folder folder_;
  SourceOptions options_;
};

TEST_P(DamagedText, IsTrainedOnAsItWasAndSaysSo) {
  const auto fresh = open_source(options_, "data.train");
  const std::vector<std::int64_t> samples = samples_of(*fresh);
  const std::string whole = read_file(kept());
  for (const std::string& damage : damages_of(whole)) {
    write_file_atomically(kept(), damage);
    const auto source = open_source(options_, "data.train");
    EXPECT_EQ(samples_of(*source), samples);
    EXPECT_EQ(source->fingerprint(), fresh->fingerprint());
    EXPECT_THAT(source->remarks(), ElementsAre(HasSubstr(kept().string())));
    EXPECT_EQ(read_file(kept()), whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamagedText, ::testing::Values("a.txt", "a.jsonl"));

}  // namespace
}  // namespace accrue::data
