/** Configs to start a queue from. They are those of the tutorials that people follow, with their known mistakes mended. */
import type { VariableType } from "./queue_data";

export type Start = {
  name: "job" | "gpu" | "volcano" | "pytorch" | "docker" | "process";
  resource: string;
  text: string;
  variables?: Record<string, Partial<VariableDraft>>;
};

/** A template variable while it is being described: all as text, as it is typed. */
export type VariableDraft = {
  type: VariableType;
  minimum: string;
  maximum: string;
  options: string;
  default: string;
  description: string;
};
export const NEW_VARIABLE: VariableDraft = {
  type: "string",
  minimum: "",
  maximum: "",
  options: "",
  default: "",
  description: "",
};

const JOB = `spec:
  template:
    spec:
      containers:
        - name: train
          image: \${image_uri}
          resources:
            requests:
              cpu: 1000m
              memory: 1Gi
      restartPolicy: Never
  backoffLimit: 0
`;

const GPU = `spec:
  template:
    spec:
      containers:
        - name: train
          image: \${image_uri}
          resources:
            limits:
              cpu: 4
              memory: 12Gi
              nvidia.com/gpu: '{{gpus}}'
      restartPolicy: Never
  backoffLimit: 0
`;

const VOLCANO = `apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: wandb-job-\${run_id}
spec:
  schedulerName: volcano
  # All ranks start together or not at all: the master and every worker.
  minAvailable: 2
  # A rank that fails or is evicted takes the others with it, and all begin again together.
  maxRetry: 3
  policies:
    - event: PodFailed
      action: RestartJob
    - event: PodEvicted
      action: RestartJob
  plugins:
    pytorch:
      - --master=master
      - --worker=worker
      - --port=23456
  tasks:
    - name: master
      replicas: 1
      policies:
        - event: TaskCompleted
          action: CompleteJob
      template:
        spec:
          containers:
            - name: master
              image: \${image_uri}
              imagePullPolicy: IfNotPresent
          restartPolicy: Never
    - name: worker
      replicas: 1
      template:
        spec:
          containers:
            - name: worker
              image: \${image_uri}
              imagePullPolicy: IfNotPresent
          restartPolicy: Never
`;

const PYTORCH = `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: run-\${run_id}
spec:
  runPolicy:
    ttlSecondsAfterFinished: 600
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: \${image_uri}
    Worker:
      replicas: '{{workers}}'
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: \${image_uri}
`;

export const STARTS: Start[] = [
  { name: "job", resource: "kubernetes", text: JOB },
  {
    name: "gpu",
    resource: "kubernetes",
    text: GPU,
    variables: { gpus: { type: "integer", minimum: "1", maximum: "4", default: "1" } },
  },
  { name: "volcano", resource: "kubernetes", text: VOLCANO },
  {
    name: "pytorch",
    resource: "kubernetes",
    text: PYTORCH,
    variables: { workers: { type: "integer", minimum: "1", maximum: "8", default: "2" } },
  },
  { name: "docker", resource: "local-container", text: "{}\n" },
  { name: "process", resource: "local-process", text: "{}\n" },
];
