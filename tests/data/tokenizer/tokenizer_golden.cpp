// Encodes and decodes for tokenizer_golden.py:
// tokenizer_golden encode TOKENIZER.json TEXTS OUT: TEXTS are texts that end with a zero byte; OUT
// gets the ids of each as int32, with -1 after each text.
// tokenizer_golden decode TOKENIZER.json IDS OUT: the other way round, each text three times:
// with special tokens, without them, and as a stream.
// tokenizer_golden parts TOKENIZER.json TEXT OUT: the ids of one text that is read by parts, as
// int32; prints their number on stdout.

#include <cstring>
#include <fstream>
#include <iostream>

#include "accrue/data/tokenizer.h"
#include "core/atomic_file.h"
#include "data/text/tokens/text_parts.h"

namespace {

using accrue::data::Tokenizer;
using Ids = std::vector<std::int64_t>;

constexpr std::int32_t end_of_text = -1;

void write_ids(const Ids& ids, std::ostream& out) {
  for (const std::int64_t id : ids) {
    const auto narrow = static_cast<std::int32_t>(id);
    out.write(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
}

void encode(const Tokenizer& tokenizer, const std::string& texts, std::ostream& out) {
  Tokenizer::Encoder encoder(tokenizer);
  for (std::size_t begin = 0; begin < texts.size();) {
    const std::size_t end = texts.find('\0', begin);
    Ids ids;
    encoder.encode(std::string_view(texts).substr(begin, end - begin), ids);
    ids.push_back(end_of_text);
    write_ids(ids, out);
    begin = end + 1;
  }
}

void write_text(const std::string& text, std::ostream& out) { out << text << '\0'; }

void decode(const Tokenizer& tokenizer, const std::string& bytes, std::ostream& out) {
  Ids ids;
  for (std::size_t at = 0; at + sizeof(std::int32_t) <= bytes.size(); at += sizeof(std::int32_t)) {
    std::int32_t id = 0;
    std::memcpy(&id, bytes.data() + at, sizeof id);
    if (id != end_of_text) {
      ids.push_back(id);
      continue;
    }
    write_text(tokenizer.decode(ids), out);
    write_text(tokenizer.decode(ids, true), out);
    Tokenizer::Decoder stream(tokenizer);
    std::string said;
    for (const std::int64_t one : ids) said += stream.add(one);
    write_text(said + stream.end(), out);
    ids.clear();
  }
}

void encode_parts(const Tokenizer& tokenizer, const std::string& text, std::ostream& out) {
  constexpr std::size_t part_bytes = 1 << 15;
  const std::string what = "parts";
  const accrue::data::FilePool files({text}, what);
  accrue::data::TextParts parts(files, tokenizer, what, part_bytes);
  Tokenizer::Encoder encoder(tokenizer);
  int count = 0;
  for (; const auto part = parts.next(); ++count) {
    Ids ids;
    encoder.encode(*part, ids);
    write_ids(ids, out);
  }
  std::cout << count << '\n';
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const std::string what = arguments[1];
  std::ofstream out(arguments[4], std::ios::binary);
  try {
    const auto tokenizer = Tokenizer::open(arguments[2], "data.tokenizer");
    if (what == "encode") encode(*tokenizer, accrue::read_file(arguments[3]), out);
    if (what == "decode") decode(*tokenizer, accrue::read_file(arguments[3]), out);
    if (what == "parts") encode_parts(*tokenizer, arguments[3], out);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
