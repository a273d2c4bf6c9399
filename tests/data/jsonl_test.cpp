#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "accrue/data/source.h"
#include "core/rng.h"
#include "data/loader.h"
#include "folder.h"
#include "refusal.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using testing::fetch;
using testing::Folder;
using ::testing::HasSubstr;
using testing::open;
using testing::refusal;
using testing::values;

constexpr std::int64_t jsonl_context = 32;

std::unique_ptr<Source> open_packed(const std::string& glob) {
  return open_source({.globs = {glob}, .context = jsonl_context, .packing = true}, "data.train");
}

std::string list_of(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const std::int64_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return "[" + text + "]";
}

/// A sample as stated in its file.
struct Stated {
  std::vector<std::int64_t> ids, labels;
  double weight = 1;
  std::string line() const {
    return R"({"input_ids":)" + list_of(ids) + R"(,"labels":)" + list_of(labels) + R"(,"weight":)" +
           std::to_string(weight) + "}\n";
  }
};

std::vector<Stated> random_samples(std::int64_t count, std::uint64_t seed) {
  std::vector<Stated> samples;
  std::uint64_t draws = 0;
  const auto draw = [&](std::uint64_t below) {
    return static_cast<std::int64_t>(random_word(seed, 2, draws++) % below);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    Stated sample;
    const std::int64_t tokens = 2 + draw(jsonl_context - 1);
    for (std::int64_t t = 0; t < tokens; ++t) {
      sample.ids.push_back(draw(50));
      sample.labels.push_back(draw(3) == 0 ? -100 : draw(50));
    }
    if (draw(4) == 0) sample.weight = 0.25 * static_cast<double>(draw(8));
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::string lines_of(const std::vector<Stated>& samples) {
  std::string text;
  for (const Stated& sample : samples) text += sample.line();
  return text;
}

/// A loss that depends on the tokens up to a position, and on the label there.
double term(const std::int64_t* tokens, std::int64_t position, std::int64_t label) {
  double history = 1;
  for (std::int64_t i = 0; i <= position; ++i)
    history = std::fmod(history * 1.7 + static_cast<double>(tokens[i]), 97.0);
  return std::fmod(history * static_cast<double>(label + 3), 11.0);
}

struct WeightedSum {
  double sum = 0, weight = 0;
};

// As in transformers: logits[:-1] against labels[1:], -100 ignored.
WeightedSum loss_as_hugging_face(const Stated& sample) {
  WeightedSum loss;
  for (std::size_t i = 1; i < sample.labels.size(); ++i) {
    if (sample.labels[i] == -100) continue;
    loss.sum +=
        sample.weight * term(sample.ids.data(), static_cast<std::int64_t>(i) - 1, sample.labels[i]);
    loss.weight += sample.weight;
  }
  return loss;
}

/// As in a model: position by position of each sample's place.
WeightedSum loss_of(const batch::MicroBatch& micro) {
  const std::int64_t columns = micro.inputs.size(1);
  std::vector<SampleSpan> spans = micro.spans;
  if (spans.empty())
    for (std::int64_t row = 0; row < micro.inputs.size(0); ++row)
      spans.push_back({.row = row, .begin = 0, .end = columns});
  WeightedSum loss;
  const auto* inputs = micro.inputs.const_data_ptr<std::int64_t>();
  const auto* targets = micro.targets.const_data_ptr<std::int64_t>();
  for (const SampleSpan& span : spans) {
    const std::int64_t offset = span.row * columns + span.begin;
    for (std::int64_t i = 0; i < span.end - span.begin; ++i) {
      if (targets[offset + i] == -100) continue;
      const double weight =
          micro.weights.defined() ? micro.weights.const_data_ptr<float>()[offset + i] : 1;
      loss.sum += weight * term(inputs + offset, i, targets[offset + i]);
      loss.weight += weight;
    }
  }
  return loss;
}

TEST(Jsonl, PredictsWhatHuggingFaceDoesPaddedAndPacked) {
  const Folder folder;
  const auto samples = random_samples(60, 5);
  const auto file = folder.write("a.jsonl", lines_of(samples));
  std::vector<std::int64_t> all(samples.size());
  std::iota(all.begin(), all.end(), 0);
  WeightedSum expected;
  std::int64_t tokens = 0;
  for (const Stated& sample : samples) {
    const WeightedSum loss = loss_as_hugging_face(sample);
    expected.sum += loss.sum;
    expected.weight += loss.weight;
    tokens += std::ssize(sample.ids) - 1;
  }
  for (const auto& source : {open(file, jsonl_context), open_packed(file)}) {
    const batch::MicroBatch micro = fetch(*source, all);
    const WeightedSum loss = loss_of(micro);
    EXPECT_NEAR(loss.sum, expected.sum, 1e-9 * expected.sum);
    EXPECT_DOUBLE_EQ(loss.weight, expected.weight);
    EXPECT_EQ(micro.tokens, tokens);
  }
  // Negative control: labels off by one position.
  auto shifted = samples;
  for (Stated& sample : shifted)
    std::rotate(sample.labels.begin(), sample.labels.begin() + 1, sample.labels.end());
  const auto source = open(folder.write("b.jsonl", lines_of(shifted)), jsonl_context);
  EXPECT_GT(std::abs(loss_of(fetch(*source, all)).sum - expected.sum), 1e-3 * expected.sum);
}

TEST(Jsonl, GivesAnySampleAtAnyTime) {
  const Folder folder;
  const auto samples = random_samples(300, 9);
  // Two files, blank lines, and lines that are left out, between and at the end.
  std::string first, second;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::string& file = i < 170 ? first : second;
    if (i % 5 == 0) file += "\n \r\n";
    if (i % 11 == 0) file += "{\"text\": \"x\"}\n";
    file += samples[i].line();
  }
  second += "{\"text\": \"\"}\n\n";
  folder.write("a.jsonl", first);
  folder.write("b.jsonl", second);
  folder.write("aa.jsonl", "\n");
  const auto source = open(folder.path("*.jsonl"), jsonl_context);
  ASSERT_EQ(source->size(), 300);
  for (std::int64_t i = 0; i < 300; i += 1) {
    const std::int64_t index = (i * 7) % 300;
    const Stated& sample = samples[static_cast<std::size_t>(index)];
    const auto micro = fetch(*source, {index});
    EXPECT_EQ(values(micro.inputs), std::vector(sample.ids.begin(), sample.ids.end() - 1));
    EXPECT_EQ(values(micro.targets), std::vector(sample.labels.begin() + 1, sample.labels.end()));
    EXPECT_EQ(micro.tokens, source->tokens(index));
    EXPECT_EQ(micro.weights.defined(), sample.weight != 1);
  }
  EXPECT_THAT(source->remarks(), ElementsAre(HasSubstr("29 sample(s)")));
  EXPECT_THROW(fetch(*source, {300}), Error);
  EXPECT_THROW(fetch(*source, {-1}), Error);
  EXPECT_THROW(source->tokens(300), Error);
}

TEST(Jsonl, TakesTheLastLineWithoutALineFeed) {
  const Folder folder;
  const auto source = open(folder.write("a.json-lines", R"({"text": "ab"})"
                                                        "\n"
                                                        R"({"text": "xyz"})"),
                           jsonl_context);
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->vocab(), 256);
  EXPECT_EQ(source->uniform_tokens(), std::nullopt);
  EXPECT_EQ(bytes_to_text(values(fetch(*source, {1}).inputs)), "xy");
  EXPECT_EQ(bytes_to_text(values(fetch(*source, {1}).targets)), "yz");
  EXPECT_TRUE(source->remarks().empty());
}

TEST(Jsonl, DoesNotTellTheVocabularyOfIds) {
  const Folder folder;
  const auto file =
      folder.write("a.jsonl", "{\"text\": \"ab\"}\n{\"input_ids\": [1, 2], \"labels\": [1, 2]}\n");
  EXPECT_EQ(open(file, jsonl_context)->vocab(), 0);
}

/// The inputs of a sample, as separate decimal numbers.
std::string inputs_of(const Source& source, std::int64_t index) {
  std::string text;
  for (const std::int64_t id : values(fetch(source, {index}).inputs))
    text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

TEST(Jsonl, TakesPackedSamplesAsSamplesOfTheirOwn) {
  const Folder folder;
  const std::string plain = R"({"input_ids": [1, 2, 3], "labels": [1, 2, 3]})"
                            "\n";
  const std::string packed =
      R"({"input_ids": [11, 12, 13, 21, 22, 31], "labels": [11, 12, 13, 21, 22, 31],)"
      R"( "position_ids": [0, 1, 2, 0, 1, 0]})"
      "\n";
  const auto file = folder.write("a.jsonl", plain + packed + plain + packed);
  const auto source = open(file, 2);
  ASSERT_EQ(source->size(), 6) << "samples of one token are left out";
  const char* expected[] = {"1 2", "11 12", "21", "1 2", "11 12", "21"};
  for (std::int64_t i = 5; i >= 0; --i) {
    EXPECT_EQ(inputs_of(*source, i), expected[i]);
    EXPECT_EQ(source->tokens(i), i % 3 == 2 ? 1 : 2);
  }
  EXPECT_THAT(source->remarks(), ElementsAre(HasSubstr("2 sample(s) of fewer than two tokens")));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, 1); }),
              HasSubstr("4 longer, the longest of 3 at " + file + ":1"));
}

TEST(Jsonl, TakesWhatMasksSayForItsTargets) {
  const Folder folder;
  const auto source =
      open(folder.write("a.jsonl", R"({"input_ids": [1, 2, 3, 4], "completion_mask": [0, 0, 1, 1]})"
                                   "\n"
                                   R"({"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4],)"
                                   R"( "loss_mask": [1, 1, 0, 1]})"),
           4);
  EXPECT_THAT(values(fetch(*source, {0}).targets), ElementsAre(-100, 3, 4));
  EXPECT_THAT(values(fetch(*source, {1}).targets), ElementsAre(2, -100, 4));
  const std::string nothing = R"({"input_ids": [1, 2], "labels": [1, 2], "loss_mask": [1, 0]})";
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(folder.write("a.jsonl", nothing), 4); }),
              HasSubstr("labels that count"));
}

TEST(Jsonl, NamesKeysThatAreNotReadOnceAFile) {
  const Folder folder;
  const std::string line = R"({"text": "ab", "id": 1, "meta": {"text": "c"}})"
                           "\n";
  const std::string a = folder.write("a.jsonl", line + line + R"({"url": "d", "text": "ab"})");
  folder.write("b.jsonl", R"({"text": "ab"})");
  const std::string c = folder.write("c.jsonl", line + R"({"text": "ab", "weight": 1})");
  EXPECT_THAT(open(folder.path("*.jsonl"), jsonl_context)->remarks(),
              ElementsAre(a + R"(: keys that are not read: "id", "meta" and "url")",
                          c + R"(: keys that are not read: "id" and "meta")"));
  EXPECT_THAT(open(folder.path("b.jsonl"), jsonl_context)->remarks(), ElementsAre());
}

TEST(Jsonl, NamesSomeOfManyKeysAndFiles) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += R"({"text": "ab", "key)" + std::to_string(i) + "\": 1}\n";
  lines += "{\"text\": \"ab\", \"" + std::string(1000, 'k') + "\": 1}\n";
  for (int i = 0; i < 20; ++i) folder.write("f" + std::to_string(10 + i) + ".jsonl", lines);
  const auto remarks = open(folder.path("*.jsonl"), jsonl_context)->remarks();
  ASSERT_EQ(remarks.size(), 9u);
  EXPECT_THAT(remarks.front(), HasSubstr(R"("key14", "key15" and others)"));
  EXPECT_EQ(remarks.back(), "12 more files with keys that are not read");
  const auto one = folder.write("one.jsonl", "{\"text\": \"ab\", \"" + std::string(1000, 'k') +
                                                 "\": 1}\n{\"text\": \"ab\", \"" +
                                                 std::string(1000, 'k') + "\": 1}\n");
  EXPECT_EQ(open(one, jsonl_context)->remarks().front(),
            one + ": keys that are not read: \"" + std::string(60, 'k') + "...\"");
}

TEST(Jsonl, FillsTheContextExactly) {
  const Folder folder;
  const auto file = folder.write("a.jsonl", R"({"text": "abcde"})");
  EXPECT_EQ(open(file, 4)->tokens(0), 4);
  const auto message = refusal(Error::Kind::usage, [&] { open(file, 3); });
  EXPECT_THAT(message, HasSubstr("at most 4 tokens"));
  EXPECT_THAT(message, HasSubstr("1 longer, the longest of 5 at " + file + ":1"));
  EXPECT_THAT(message, HasSubstr("model.context = 4"));
}

TEST(Jsonl, PacksWithSpansOfTheDraws) {
  const Folder folder;
  const auto samples = random_samples(50, 13);
  const std::shared_ptr<const Source> source =
      open_packed(folder.write("a.jsonl", lines_of(samples)));
  const batch::Sampler sampler(50, batch::Order::shuffle, 3);
  Loader loader(source, sampler);
  loader.prefetch({{60, 84}});
  const batch::MicroBatch micro = loader.next();
  ASSERT_EQ(micro.spans.size(), 24U);
  EXPECT_LE(micro.inputs.size(1), jsonl_context);
  EXPECT_LT(micro.inputs.size(0), 24);
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < micro.spans.size(); ++i) {
    const SampleSpan& span = micro.spans[i];
    EXPECT_EQ(span.sample_id, 60 + static_cast<std::int64_t>(i));
    EXPECT_EQ(span.sample_id, micro.sample_ids[i]);
    const Stated& sample = samples[static_cast<std::size_t>(sampler.sample(span.sample_id))];
    EXPECT_EQ(values(micro.inputs[span.row].slice(0, span.begin, span.end)),
              std::vector(sample.ids.begin(), sample.ids.end() - 1));
    covered += span.end - span.begin;
  }
  EXPECT_EQ(covered, micro.tokens);
  const batch::MicroBatch again = loader.fetch({60, 84});
  EXPECT_TRUE(at::equal(again.inputs, micro.inputs));
  EXPECT_TRUE(at::equal(again.targets, micro.targets));
}

TEST(Jsonl, PrefetchesAsItFetches) {
  const Folder folder;
  const std::shared_ptr<const Source> source =
      open(folder.write("a.jsonl", lines_of(random_samples(40, 1))), jsonl_context);
  Loader loader(source, batch::Sampler(40, batch::Order::shuffle, 3), 3);
  const auto ranges = batch::split({0, 80}, 7);
  loader.prefetch(ranges);
  for (const batch::Range& range : ranges) {
    const batch::MicroBatch ahead = loader.next(), again = loader.fetch(range);
    EXPECT_TRUE(at::equal(ahead.inputs, again.inputs));
    EXPECT_TRUE(at::equal(ahead.targets, again.targets));
    EXPECT_TRUE(ahead.spans.empty());
  }
}

TEST(Jsonl, IsSlicedWithItsLengths) {
  const Folder folder;
  const std::shared_ptr<const Source> source =
      open(folder.write("a.jsonl", lines_of(random_samples(20, 2))), jsonl_context);
  const auto part = slice(source, 15, 20);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(part->tokens(i), source->tokens(15 + i));
  EXPECT_EQ(part->uniform_tokens(), std::nullopt);
  EXPECT_THROW(part->tokens(5), Error);
}

TEST(Jsonl, FingerprintCoversPacking) {
  const Folder folder;
  const auto file = folder.write("a.jsonl", R"({"text": "abcde"})");
  EXPECT_NE(open(file, jsonl_context)->fingerprint(), open_packed(file)->fingerprint());
  EXPECT_NE(open(file, jsonl_context)->fingerprint(), open(file, 4, Format::text)->fingerprint());
  EXPECT_THAT(open(file, jsonl_context)->fingerprint(), HasSubstr("jsonl: 1 files, 17 bytes"));
}

TEST(BadJsonl, IsNamedWithFileAndLine) {
  const Folder folder;
  folder.write("a.jsonl", "{\"text\": \"ab\"}\n");
  const auto bad = folder.write("b.jsonl", "{\"text\": \"ab\"}\n\n\n{\"text\": 3}\n");
  const auto message =
      refusal(Error::Kind::usage, [&] { open(folder.path("*.jsonl"), jsonl_context); });
  EXPECT_THAT(message, HasSubstr("data.train"));
  EXPECT_THAT(message, HasSubstr(bad + ":4: \"text\" is a number"));
}

TEST(BadJsonl, HasNoSampleOrNoLabelThatCounts) {
  const Folder folder;
  const auto message_of = [&](const std::string& content) {
    const auto file = folder.write("a.jsonl", content);
    return refusal(Error::Kind::usage, [&] { open(file, jsonl_context); });
  };
  EXPECT_THAT(message_of("\n"), HasSubstr("samples of at least two tokens"));
  EXPECT_THAT(message_of("\n\n"), HasSubstr("samples of at least two tokens"));
  EXPECT_THAT(message_of("{\"text\": \"a\"}\n"), HasSubstr("samples of at least two tokens"));
  const std::string masked = R"({"input_ids": [1, 2], "labels": [1, -100]})";
  EXPECT_THAT(message_of(masked), HasSubstr("labels that count"));
  EXPECT_THAT(message_of(R"({"text": "ab", "weight": 0})"), HasSubstr("labels that count"));
  // One that counts is enough; the masked one is a micro-batch of weight 0.
  const auto source =
      open(folder.write("a.jsonl", masked + "\n" + R"({"text": "ab"})"), jsonl_context);
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(loss_of(fetch(*source, {0})).weight, 0);
}

TEST(BadJsonl, NamesTheLongestSampleAndHowMany) {
  const Folder folder;
  std::string content;
  for (const std::size_t length : {10, 40, 20, 100, 33})
    content += R"({"text": ")" + std::string(length, 'x') + "\"}\n";
  const auto file = folder.write("a.jsonl", content);
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, jsonl_context); }),
              HasSubstr("2 longer, the longest of 100 at " + file + ":4"));
}

TEST(BadJsonl, OfWhichALineChangedSinceItWasOpened) {
  const Folder folder;
  const std::string before = "{\"text\": \"ab\"}\n{\"text\": \"cdef\"}\n";
  const auto file = folder.write("a.jsonl", before);
  for (const char* after :
       {"{\"text\": \"ab\"}\n{\"text\": \"cd\"}  \n", "{\"text\": \"ab\"}\n{\"text\": 123456}\n"}) {
    folder.write("a.jsonl", before);
    const auto source = open(file, jsonl_context);
    ASSERT_EQ(std::string(after).size(), before.size());
    // If the system's time stamps do not show it, the line itself does.
    const auto written = std::filesystem::last_write_time(file);
    folder.write("a.jsonl", after);
    std::filesystem::last_write_time(file, written);
    EXPECT_NO_THROW(fetch(*source, {0}));
    EXPECT_THAT(refusal(Error::Kind::runtime, [&] { fetch(*source, {1}); }),
                HasSubstr(file + ":2"));
  }
}

TEST(BadJsonl, ThrowsFromThePrefetchInItsPlace) {
  const Folder folder;
  const auto file = folder.write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cdef\"}\n");
  const std::shared_ptr<const Source> source = open(file, jsonl_context);
  const auto written = std::filesystem::last_write_time(file);
  folder.write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cd\"}  \n");
  std::filesystem::last_write_time(file, written);
  Loader loader(source, batch::Sampler(2, batch::Order::sequential, 0));
  loader.prefetch({{0, 1}, {1, 2}});
  EXPECT_NO_THROW(loader.next());
  EXPECT_THAT(refusal(Error::Kind::runtime, [&] { loader.next(); }), HasSubstr(file));
}

TEST(Packing, IsRefusedWhereAllSamplesAreFull) {
  const Folder folder;
  const auto file = folder.write("a.txt", std::string(100, 'x'));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open_packed(file); }),
              HasSubstr("data.packing: expected samples of different lengths"));
}

}  // namespace
}  // namespace accrue::data
