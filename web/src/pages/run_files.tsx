/** The files that a run saved, to download. */
import { Files, type FilesData } from "../api/generated";
import { useAsk } from "../api/live";
import { Ago, Answer, Empty } from "../parts/basic";
import { bytesText } from "../parts/figures";
import { Icon } from "../parts/icon";
import { type Column, Table } from "../parts/table";
import { useText } from "../text";
import type { Where } from "./run";

type Row = NonNullable<NonNullable<NonNullable<NonNullable<FilesData["project"]>["run"]>["files"]>["edges"][number]["node"]>;

/** Links are signed for the server's public name; the page asks for them where it came from itself. */
export const local = (url: string): string => {
  const { pathname, search } = new URL(url, location.origin);
  return pathname + search;
};

export function FilesTab({ where }: { where: Where }) {
  const t = useText();
  const answer = useAsk(Files, where);
  const columns: Column<Row>[] = [
    {
      title: t.file,
      isName: true,
      width: 3,
      by: (file) => file.name,
      show: (file) => (
        <a className="strong cut" href={local(file.directUrl ?? "")} download={file.name.split("/").at(-1)}>
          <Icon name="down" /> {file.name}
        </a>
      ),
    },
    { title: t.size, isNumber: true, by: (file) => file.sizeBytes, show: (file) => bytesText(file.sizeBytes ?? 0) },
    { title: t.updated, by: (file) => file.updatedAt, show: (file) => <Ago at={file.updatedAt} /> },
  ];
  return (
    <Answer of={answer}>
      {({ project }) => {
        const files = (project?.run?.files?.edges ?? []).flatMap(({ node }) => node ?? []);
        if (files.length === 0)
          return (
            <Empty icon="file" title={t.noFiles}>
              <p>{t.noFilesText}</p>
            </Empty>
          );
        return <Table label={t.files} columns={columns} rows={files} id={(file) => file.name} text={(file) => file.name} />;
      }}
    </Answer>
  );
}
